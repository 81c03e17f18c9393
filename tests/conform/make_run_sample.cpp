// Writes the sample runs as every report, for the tests in a browser and to
// look at: run_sample FOLDER [CASES].
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "assay/conform/report/run_html.h"
#include "assay/conform/report/run_json.h"
#include "assay/conform/report/run_junit.h"
#include "assay/conform/report/run_terminal.h"
#include "tests/conform/run_sample.h"

namespace assay::conform {
namespace {

void write_all(const RunResult& run, const std::filesystem::path& path) {
  const auto with = [&](const char* extension) {
    return std::filesystem::path(path).replace_extension(extension);
  };
  const ApiCoverage api = api_coverage(run, scanned_sample());
  write_run_json(run, &api, with(".json"));
  write_run_junit(run, with(".xml"));
  write_run_html(run, &api, with(".html"));
}

}  // namespace
}  // namespace assay::conform

int main(int argc, char** argv) {
  using namespace assay::conform;
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_sample FOLDER [CASES]\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  write_all(run_sample(), folder / "run.json");
  write_all(large_run(argc > 2 ? std::atoi(argv[2]) : 10'000),
            folder / "large.json");
  const ApiCoverage api = api_coverage(run_sample(), scanned_sample());
  std::fputs(render_run(run_sample(), &api).c_str(), stdout);
  return 0;
}
