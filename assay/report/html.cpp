#include "assay/report/html.h"

#include "assay/base/atomic_file.h"
#include "assay/report/html_assets.h"
#include "assay/report/html_data.h"
#include "assay/report/markup.h"

namespace assay {
namespace {

constexpr std::size_t kMostRows = 400'000;

}  // namespace

void write_html(const Comparison& comparison,
                const std::filesystem::path& path) {
  AtomicFile file(path);
  fill_page(file, kPageHtml,
            {{"css", kPageCss},
             {"data", html_data(comparison, html_rows(comparison, kMostRows))},
             {"chart", kChartJs},
             {"script", kPageJs}});
  file.commit();
}

}  // namespace assay
