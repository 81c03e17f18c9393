// The command line of train_gpt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assay/core/dtype.h"
#include "assay/te/recipe/recipe.h"

namespace assay::train_gpt {

enum class Recompute : std::uint8_t { kNone, kSelective, kFull };

struct Options {
  // The model.
  std::string recipe = "bf16";
  std::int64_t layers = 4, hidden = 256, heads = 4;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t ffn = 0;       // 0: 4 hidden
  std::int64_t experts = 0, topk = 2;
  double dropout = 0;
  // What it is trained on, and how.
  std::string text;
  std::int64_t seq = 128, batch = 8, microbatches = 1, steps = 300;
  double lr = 1e-3, clip = 1;
  std::int64_t warmup = 20;
  std::uint64_t seed = 1;
  std::string recompute = "none";
  // The machine.
  int tp = 1, threads = 0;
  bool sp = false;
  // Files and output.
  std::string resume, save, log;
  std::int64_t save_every = 0;
  bool quiet = false;

  // Rows of one microbatch that the layers see.
  std::int64_t sequences() const { return batch / microbatches; }
  DType dtype() const;  // of parameters and activations
  // Absent: fp32 and bf16.
  std::optional<te::Recipe> quantization() const;
  Recompute recompute_mode() const;
  // Options and values that a checkpoint must agree on: a run goes on with the
  // same bits only where none of them has changed.
  std::vector<std::pair<std::string, std::string>> signature() const;
};

struct CommandLine {
  Options options;
  // Where the run ends before it begins: help was printed, or the error that
  // `message` is.
  std::optional<int> exit_code;
  std::string message;
};

// `arguments` without the program's name.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

// A word as a shell reads it back.
std::string shell_word(const std::string& word);
// The command with these arguments but --resume, for a person to type; begins
// with mpirun for more ranks than one.
std::string command_to_go_on(const std::vector<std::string>& arguments,
                             int ranks);

}  // namespace assay::train_gpt
