// What one rank left behind in one step: operators in execution order, each
// with its records (tensors, statistics, digests, plain values).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"

namespace assay {

enum class Role : std::uint8_t {
  kInput,      // forward argument; for a backward op: gradient of an output
  kOutput,     // forward result; for a backward op: gradient of an input
  kParameter,  // read by a module's forward
  kGradient,   // parameter gradient
  kTensor,     // an entry of a plain file or checkpoint
};

enum class Direction : std::uint8_t {
  kNone,
  kForward,
  kBackward,
  kParametersGrad
};

// One leaf of one operator call.
struct Record {
  std::uint32_t op = 0;  // index into Trace::ops
  Role role = Role::kTensor;
  bool is_tensor = true;   // else `value` holds what the leaf said
  std::string leaf;        // "input.0", "output.0.1", "parameters.weight"
  std::string type;        // "torch.Tensor", "int", ...; "" for tensors read
                           // from plain files
  SideFacts facts;         // dtype, shape, requires_grad
  TensorStatistics stats;  // as dumped
  // Elements that are zero, and (FP8, FP4) that have the largest finite
  // magnitude; -1 where the dump does not say.
  std::int64_t zeros = -1, saturated = -1;
  std::string digest;  // crc32 or xor text, "" if none
  // Non-tensor leaves: canonical text. Tensors: further facts of the leaf as
  // one JSON object (placements, is_nan, integer statistics beyond 2^53),
  // normally
  // "". Two sides that differ in it differ.
  std::string value;
  // Relative to the directory the loader knows; "" if the tensor was not kept.
  std::string file;
  std::uint32_t entry = 0;  // which tensor of that file
  std::string unreadable;   // why the tensor cannot be had, one line
};

// Facts about a collective, for following a divergence across ranks.
struct Collective {
  std::vector<std::int64_t> group_ranks;
  std::optional<std::int64_t> peer;  // point to point
  std::string group_id;
};

struct Op {
  std::string name;    // "Functional.linear.0.forward"; the file's stem for
                       // plain files
  std::string api;     // "linear", "layers.0.mlp.Linear"
  std::string prefix;  // "Functional", "Module", ...
  std::int64_t call_index = 0;
  Direction direction = Direction::kNone;
  bool recompute = false;
  std::string autocast;      // dtype of the region around it, "" outside
  std::int32_t parent = -1;  // enclosing module's op, -1 for a root
  std::int32_t stack = -1;   // index into Trace::stacks
  std::uint32_t first_record = 0;
  std::uint32_t record_count = 0;
  std::unique_ptr<Collective> collective;  // null for local operators
};

// Loads tensors of a trace; shared by its copies, thread-safe.
class TensorLoader {
 public:
  virtual ~TensorLoader() = default;
  virtual Tensor load(const Record& record) const = 0;  // throws Error
};

struct Trace {
  std::filesystem::path path;  // directory or file it was read from
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::string framework;        // "pytorch", "mindspore", ""
  std::string task;             // "tensor", "statistics", "md5", "xor", ""
  std::string level;            // "L0", "L1", "mix", ""
  std::vector<Op> ops;          // execution order
  std::vector<Record> records;  // grouped by op, in the order of the dump
  std::vector<std::vector<std::string>> stacks;  // innermost frame first
  std::vector<std::string> warnings;  // one line each, shown to the user
  std::shared_ptr<const TensorLoader> loader;

  // "Functional.linear.0.forward.input.0"; the tensor's own name for plain
  // files.
  std::string name(const Record& record) const;
};

// A tree of dumps: one Trace per (step, rank), in natural order (step_2 before
// step_10), located but not read.
struct TraceLocation {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::int64_t rank = 0;
  bool numbered = false;  // step and rank come from directory names
  // When not empty: the tensor files of the directory `path` that lie beside
  // other dumps; nothing else of it is read.
  std::vector<std::string> only = {};
};

struct TraceReadOptions {
  struct Raw {
    std::optional<DType> dtype;
    std::optional<Shape> shape;
    bool big_endian = false;
  } raw;
};

// Finds the dumps under `path`: a tensor file, a dump.json, a rank or step
// directory, a run directory, a ptdbg directory, or a plain directory of
// tensor files. Throws Error{kUnreadable} when nothing is there.
std::vector<TraceLocation> locate_traces(const std::filesystem::path& path);

// Reads one. Thread-safe. Throws Error.
Trace read_trace(const TraceLocation& location,
                 const TraceReadOptions& options = {});

}  // namespace assay
