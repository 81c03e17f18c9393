// Writes traces in layouts other tools read: msprobe's directories,
// .safetensors, .npy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "assay/trace/trace.h"

namespace assay {

enum class ConvertKind : std::uint8_t { kMsprobe, kSafetensors, kNpy };

struct ConvertSummary {
  std::int64_t tensors = 0;           // written
  std::int64_t bytes = 0;             // of their elements
  std::vector<std::string> left_out;  // one line each: name and why
};

// kMsprobe: `out` becomes a directory (created; must hold no dump yet) with
// dump.json, stack.json, construct.json and dump_tensor_data/*.npy. Dtypes
// numpy has no name for (bfloat16, fp8, fp4, e8m0) are stored as float32, which
// holds them exactly, under their own dtype in dump.json. Leaves without a
// tensor file keep what the dump said of them. Entries that are no operator
// calls (plain files) get msprobe's debug names, "{name}.0.debug".
// kSafetensors: every tensor in one file, named as Trace::name. kNpy: the only
// tensor of the trace, in its own dtype.
// A tensor that cannot be had is left out and listed. Throws Error when
// nothing could be written. The files appear complete or not at all.
ConvertSummary convert_trace(const Trace& trace,
                             const std::filesystem::path& out,
                             ConvertKind kind);

// Reads everything under `in` and writes `out`, whose extension tells the
// kind; a name without ".safetensors" or ".npy" is an msprobe directory, with
// step{N}/rank{R} below it where `in` has them. Throws Error{kUsage} when many
// dumps meet one file.
ConvertSummary convert_path(const std::filesystem::path& in,
                            const std::filesystem::path& out,
                            const TraceReadOptions& options = {});

// The msprobe half of convert_trace.
ConvertSummary write_msprobe(const Trace& trace,
                             const std::filesystem::path& out);

}  // namespace assay
