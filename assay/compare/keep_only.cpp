// --only: which rows of a matching are wanted.
#include <algorithm>

#include "assay/base/text.h"
#include "assay/compare/engine.h"

namespace assay {
namespace {

bool fits(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return glob_match(glob, name);
  });
}

bool fits_op(const std::vector<std::string>& globs, const Trace& trace,
             std::int32_t op) {
  return op >= 0 && fits(globs, trace.ops[op].name);
}

bool fits_record(const std::vector<std::string>& globs, const Trace& trace,
                 std::int32_t record) {
  return record >= 0 && fits(globs, trace.name(trace.records[record]));
}

}  // namespace

void keep_only(const std::vector<std::string>& globs, const Trace& golden,
               const Trace& target, Matching& matching) {
  std::vector<RecordPair> kept;
  for (OpPair& op : matching.ops) {
    const auto first = static_cast<std::uint32_t>(kept.size());
    const bool whole =
        fits_op(globs, golden, op.golden) || fits_op(globs, target, op.target);
    for (std::uint32_t i = 0; i < op.count; ++i) {
      const RecordPair& pair = matching.pairs[op.first + i];
      if (whole || fits_record(globs, golden, pair.golden) ||
          fits_record(globs, target, pair.target)) {
        kept.push_back(pair);
      }
    }
    op.first = first;
    op.count = static_cast<std::uint32_t>(kept.size()) - first;
  }
  matching.pairs = std::move(kept);
}

}  // namespace assay
