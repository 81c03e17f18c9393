// Writes a synthetic comparison in every format, for the browser test, and
// says how long each writer took: report_sample OUT_DIR [ROWS].
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "assay/report/csv.h"
#include "assay/report/html.h"
#include "assay/report/json.h"
#include "assay/report/junit.h"
#include "assay/report/terminal.h"
#include "assay/report/xlsx.h"
#include "tests/report/sample.h"

namespace {

// A workbook takes some 0.1 ms a row to write, and more to read back.
constexpr std::size_t kXlsxRows = 5000;

using Writer = void (*)(const assay::Comparison&, const std::filesystem::path&);

// User and system time of the process, in seconds: what a busy machine does
// not change.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) +
           1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void timed(const char* what, Writer write, const assay::Comparison& comparison,
           const std::filesystem::path& path) {
  const auto start = std::chrono::steady_clock::now();
  const double cpu = cpu_seconds();
  write(comparison, path);
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  std::printf("%-16s %8zu rows %8.1f MB %7.3f s, cpu %7.3f s\n", what,
              comparison.rows.size(),
              static_cast<double>(std::filesystem::file_size(path)) / 1e6,
              taken.count(), cpu_seconds() - cpu);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: report_sample OUT_DIR [ROWS]\n");
    return 2;
  }
  const std::filesystem::path out = argv[1];
  const std::size_t rows =
      argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 100'000;
  std::filesystem::create_directories(out);
  assay::write_html(assay::gelu_sample(), out / "gelu.html");
  assay::write_xlsx(assay::gelu_sample(), out / "gelu.xlsx");
  const assay::Comparison large = assay::large_sample(rows);
  std::fputs(assay::render_terminal(large).c_str(), stdout);
  timed("html", assay::write_html, large, out / "large.html");
  timed("json", assay::write_json, large, out / "large.json");
  timed("csv", assay::write_csv, large, out / "large.csv");
  timed("junit", assay::write_junit, large, out / "large.xml");
  const assay::Comparison small =
      assay::large_sample(std::min(rows, kXlsxRows));
  timed("xlsx", assay::write_xlsx, small, out / "small.xlsx");
  const assay::Comparison statistics = assay::statistics_sample(rows);
  timed("statistics json", assay::write_json, statistics, out / "stats.json");
  timed("statistics csv", assay::write_csv, statistics, out / "stats.csv");
  return 0;
}
