// Writes our capture format while a training step runs: what an operator's
// leaves hold goes through a bounded queue to a thread of the writer's own,
// which stores it. docs/formats-traces.md has the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/trace/capture_content.h"
#include "assay/trace/trace.h"

namespace assay {

enum class CaptureMode : std::uint8_t {
  kTensor,      // elements, statistics, hash
  kStatistics,  // extremes, mean, norm, what is not finite
  kHash,        // 128-bit hash of dtype, shape and bytes
};
std::string_view to_string(CaptureMode mode);  // "tensor", ...

struct CaptureOptions {
  CaptureMode mode = CaptureMode::kStatistics;
  std::int64_t step = 0, rank = 0, world_size = 1;
  std::string framework, framework_version, level, device;
  // Bytes that may wait for the thread; who captures more waits for it.
  std::int64_t queue_bytes = std::int64_t{256} << 20;
  // A file of tensors is closed beyond this.
  std::int64_t shard_bytes = std::int64_t{1} << 30;
};

struct CaptureCounts {
  std::int64_t ops = 0, records = 0;
  std::int64_t tensor_bytes = 0;  // seen
  std::int64_t stored_bytes = 0;  // kept: tensors seen before are not again
  std::int64_t remembered = 0;    // records of tensors that were not read
  double waited = 0;              // seconds that the queue was full
};

// A leaf's place: operator, role and path ("input.0", "output.1.k").
struct CaptureLeaf {
  std::uint32_t op = 0;
  Role role = Role::kInput;
  std::string leaf;
  std::string type;  // "torch.Tensor", "int" ...
};

// One rank of one step. Calls come from one thread at a time; in a process
// forked from the one that made the writer they do nothing. An operator's line
// is written when it is begun, so that parents precede children; records follow
// in the order of the calls. What is written survives the process being
// killed, but for what waits in the queue.
//
// A file that cannot be written (disk full) does not throw where it happens,
// in the middle of a training step: problem() says so, what follows is dropped,
// and close() throws.
class CaptureWriter {
 public:
  // Makes `directory` and its parents. Throws Error{kUsage} where it holds a
  // trace already, Error{kUnreadable} where it cannot be made.
  CaptureWriter(const std::filesystem::path& directory,
                const CaptureOptions& options);
  ~CaptureWriter();  // close(), without throwing
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // The number of a call stack, innermost frame first; equal ones share one.
  std::int32_t stack(const std::vector<std::string>& frames);
  // Begins an operator and returns its number. first_record and record_count
  // are not looked at; `autocast`: dtype of the region, "" outside of one.
  std::uint32_t op(const Op& op, std::string_view autocast = "");
  // The tensor may change as soon as this returns. It is summarised and hashed
  // here, with every core, and only contents that are new are copied: where a
  // training step keeps all cores busy, copying first and looking later costs
  // more than looking.
  // number: not 0 for what the caller takes for one tensor that nobody has
  // written to since it was given with that number; it is then not read again
  // (CaptureMemo has what guards this).
  // Gives what the statistics say; kUnknown where there are none here (hashes
  // alone, or work for the thread).
  Finiteness tensor(const CaptureLeaf& leaf, const TensorView& tensor,
                    bool requires_grad, std::uint64_t number = 0);
  // Numbers given until now mean nothing any more.
  void forget();
  // A contiguous tensor that nobody else writes to (a copy from a device): all
  // of its work is the thread's. Its owner is let go there.
  void owned_tensor(const CaptureLeaf& leaf, Tensor tensor, bool requires_grad);
  void value(const CaptureLeaf& leaf, std::string_view text);
  // A leaf that is no tensor and of which only the type is known: why, in one
  // line. It never matches.
  void opaque(const CaptureLeaf& leaf, std::string_view why);
  // A tensor whose elements cannot be had: why, in one line.
  void unreadable(const CaptureLeaf& leaf, const SideFacts& facts,
                  std::string_view why);

  // Waits until everything is in the files.
  void flush();
  // Ends the trace. Throws Error for the first thing that went wrong.
  void close();

  std::string problem() const;  // "" as long as everything could be written
  CaptureCounts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
