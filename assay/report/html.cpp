#include "assay/report/html.h"

#include "assay/report/html_assets.h"
#include "assay/report/html_data.h"
#include "assay/report/page.h"
#include "assay/report/wording.h"

namespace assay {
namespace {

constexpr std::size_t kMostRows = 400'000;

}  // namespace

void write_html(const Comparison& comparison,
                const std::filesystem::path& path) {
  write_page({.title = "Assay report",
              .kind = wording(comparison.subject).report,
              .what = "rows",
              .css = kPageCss,
              .body = kPageHtml,
              .json = html_data(comparison, html_rows(comparison, kMostRows)),
              .scripts = {kChartJs, kPageJs}},
             path);
}

}  // namespace assay
