// Reader of the directories msprobe leaves: dump.json, stack.json,
// construct.json, debug.json and dump_tensor_data/.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assay/trace/trace.h"

namespace assay {

// True when the file begins like a dump.json or debug.json.
bool is_msprobe_json(const std::filesystem::path& path);

// Reads `path`, a directory that holds dump.json and/or debug.json or one such
// file. Appends to `trace`. Throws Error: kUnreadable for an absent or
// truncated file (saying how many entries were complete), kRefused for a
// malformed one. Missing or broken side files are warnings.
void read_msprobe(const std::filesystem::path& path,
                  const TraceReadOptions& options, Trace& trace);

// Finds operators of one trace by name, each name being its own. Asked in the
// order of the dump, as side files list them, it compares with the operator
// that comes next; names are hashed only once that fails.
class OpFinder {
 public:
  // `ops` must outlive the finder and keep their names.
  explicit OpFinder(const std::vector<Op>& ops) : ops_(ops) {}

  std::int32_t find(std::string_view name);  // -1 when there is none

 private:
  const std::vector<Op>& ops_;
  std::size_t next_ = 0;
  std::unordered_map<std::string_view, std::int32_t> index_;
};

// stack.json, either generation: {"0": [["api", ...], ["File ...", ...]]} or
// {"api": ["File ...", ...]}. Fills Op::stack and Trace::stacks.
void read_stacks(const std::filesystem::path& file, OpFinder& ops,
                 Trace& trace);

// construct.json: child to parent, null, "" or [parent, micro step]. Fills
// Op::parent with the nearest ancestor that was dumped.
void read_construct(const std::filesystem::path& file, OpFinder& ops,
                    Trace& trace);

// Gives the second and later ops of one name, and leaves of one op, "{name}#2",
// "#3", with a warning.
void rename_duplicates(Trace& trace);

// Two leaves that name one data file: the later tensor was written over the
// earlier one. All of them become unreadable, with a warning.
void refuse_shared_files(Trace& trace);

}  // namespace assay
