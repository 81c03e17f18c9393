// A folder of its own for every test, the module `copy`, and workers of it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "assay/conform/collect.h"
#include "assay/conform/run.h"
#include "assay/conform/spec.h"

namespace assay::conform {

inline constexpr const char* kCopySpec = R"(module: copy
summary: outputs are the inputs
api: [copy]
parameters:
  n: [1, 2, 3]
inputs:
  x: {shape: [n, 4], dtype: float32, values: normal}
outputs:
  x: {shape: [n, 4], dtype: float32, class: movement}
)";

class RunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "assay-run-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    use(kCopySpec);
    options_.workers = 1;
    options_.limits.seconds = 20;
    options_.limits.start_seconds = 20;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void use(const std::string& yaml) {
    options_.specs = {parse_spec(yaml, "specs/copy.yaml")};
  }
  std::filesystem::path path(const std::string& name) const {
    return folder_ / name;
  }
  static WorkerCommand worker(const std::string& options = "") {
    // Not the first one in PATH: a shim takes longer to start than a case.
    const char* system = "/usr/bin/python3";
    const std::string python =
        std::filesystem::exists(system) ? system : "python3";
    return parse_worker_command(python +
                                " -I -S " ASSAY_SOURCE_DIR
                                "/tests/conform/workers/hostile.py " +
                                options);
  }
  Collected collect_with(const std::string& options = "") {
    return collect(options_, worker(options), path("goldens"));
  }
  RunResult run_with(const std::string& options = "") {
    return run(options_, worker(options), {path("goldens"), path("run"), ""});
  }
  // The case whose parameter n is this.
  static const CaseResult& case_of(const RunResult& result, std::int64_t n) {
    for (const CaseResult& c : result.modules.at(0).cases)
      if (c.subject.parameters.at("n") == Value(n)) return c;
    throw std::out_of_range("no case of this n");
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  static std::vector<std::string> lines(const std::filesystem::path& file) {
    std::vector<std::string> all;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

  std::filesystem::path folder_;
  RunOptions options_;
};

}  // namespace assay::conform
