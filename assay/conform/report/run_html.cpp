#include "assay/conform/report/run_html.h"

#include "assay/conform/report/html_assets.h"
#include "assay/conform/report/run_json.h"
#include "assay/report/page.h"

namespace assay::conform {

void write_run_html(const RunResult& run, const ApiCoverage* api,
                    const std::filesystem::path& path) {
  write_page({.title = "Assay conformance",
              .kind = "conformance report",
              .what = "cases",
              .css = kRunPageCss,
              .body = kRunPageHtml,
              .json = run_json(run, api),
              .scripts = {kRunPageJs}},
             path);
}

}  // namespace assay::conform
