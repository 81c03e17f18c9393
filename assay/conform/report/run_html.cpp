#include "assay/conform/report/run_html.h"

#include "assay/base/atomic_file.h"
#include "assay/conform/report/html_assets.h"
#include "assay/conform/report/run_json.h"
#include "assay/report/markup.h"

namespace assay::conform {

void write_run_html(const RunResult& run, const ApiCoverage* api,
                    const std::filesystem::path& path) {
  AtomicFile file(path);
  fill_page(file, kRunPageHtml,
            {{"css", kRunPageCss},
             {"data", script_json(run_json(run, api))},
             {"script", kRunPageJs}});
  file.commit();
}

}  // namespace assay::conform
