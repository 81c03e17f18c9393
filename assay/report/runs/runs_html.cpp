#include "assay/report/runs/runs_html.h"

#include "assay/report/html_assets.h"
#include "assay/report/page.h"
#include "assay/report/runs/runs_json.h"

namespace assay {

void write_runs_html(const RunsComparison& comparison,
                     const std::filesystem::path& path) {
  write_page({.title = "Assay training runs",
              .kind = "training runs",
              .what = "table of figures",
              .css = kRunsPageCss,
              .body = kRunsPageHtml,
              .json = runs_page_json(comparison),
              .scripts = {kChartJs, kRunsPageJs}},
             path);
}

}  // namespace assay
