#include "assay/report/html.h"

#include <string_view>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/report/html_assets.h"
#include "assay/report/html_data.h"

namespace assay {
namespace {

constexpr std::size_t kMostRows = 400'000;

// Writes the template up to `mark` and returns what follows it.
std::string_view write_until(AtomicFile& file, std::string_view page,
                             std::string_view mark) {
  const std::size_t at = page.find(mark);
  if (at == std::string_view::npos)
    throw Error(Code::kInternal, "page.html: no " + std::string(mark));
  file.write(page.substr(0, at));
  return page.substr(at + mark.size());
}

}  // namespace

void write_html(const Comparison& comparison,
                const std::filesystem::path& path) {
  AtomicFile file(path);
  std::string_view page = kPageHtml;
  page = write_until(file, page, "{{css}}");
  file.write(kPageCss);
  page = write_until(file, page, "{{data}}");
  file.write(html_data(comparison, html_rows(comparison, kMostRows)));
  page = write_until(file, page, "{{chart}}");
  file.write(kChartJs);
  page = write_until(file, page, "{{script}}");
  file.write(kPageJs);
  file.write(page);
  file.commit();
}

}  // namespace assay
