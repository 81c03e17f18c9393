// A run that is small enough for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/train_gpt/trainer.h"

namespace assay::train_gpt {

// Every quantiser takes these sizes: multiples of 128.
inline std::vector<std::string> small_arguments() {
  return {"--layers", "2",          "--hidden", "128",   "--heads",
          "4",        "--kv-heads", "2",        "--ffn", "256",
          "--seq",    "64",         "--batch",  "4",     "--steps",
          "30",       "--warmup",   "3",        "--lr",  "2e-3"};
}

// What is given twice counts as given last.
inline Options small_options(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = small_arguments();
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandLine line = parse_command_line(arguments);
  EXPECT_FALSE(line.exit_code) << line.message;
  return line.options;
}

// A folder that is gone with the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    path_ = std::filesystem::temp_directory_path() /
            ("train_gpt_test." + std::to_string(::getpid()) + "." +
             std::to_string(count_++));
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const char* name) const { return path_ / name; }
  bool holds_only(std::vector<std::string> names) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      found.push_back(entry.path().filename());
    std::ranges::sort(found);
    std::ranges::sort(names);
    EXPECT_EQ(found, names);
    return found == names;
  }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

}  // namespace assay::train_gpt
