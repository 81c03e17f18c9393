#include "assay/compare/schedule.h"

#include <algorithm>

#include "assay/compare/row_judge.h"

namespace assay {
namespace {

constexpr std::int64_t kJobRows = 512;
constexpr std::int64_t kJobBytes = 1 << 20;
// For a tensor whose dump does not tell its size.
constexpr std::int64_t kUnknownBytes = 1 << 20;

std::int64_t record_bytes(const Record& record) {
  const auto count = checked_numel(record.facts.shape);
  if (!record.facts.dtype || !count) return kUnknownBytes;
  return storage_bytes(*record.facts.dtype, *count).value_or(kUnknownBytes);
}

}  // namespace

std::int64_t pair_bytes(const TracePair& pair, const RecordPair& records) {
  if (records.golden < 0 || records.target < 0) return 0;
  const Record& golden = pair.golden.records[records.golden];
  const Record& target = pair.target.records[records.target];
  if (!has_tensors({&pair.golden, &golden}, {&pair.target, &target})) return 0;
  return record_bytes(golden) + record_bytes(target);
}

std::vector<Job> make_jobs(const TracePair& pair, std::int64_t large_bytes) {
  std::vector<Job> jobs;
  Job current;
  const auto close = [&] {
    if (current.end > current.first) jobs.push_back(current);
    current = Job{current.end, current.end, 0, 0, false};
  };
  for (std::uint32_t i = 0; i < pair.matching.ops.size(); ++i) {
    const OpPair& op = pair.matching.ops[i];
    std::int64_t bytes = 0;
    std::int64_t largest = 0;
    for (std::uint32_t r = 0; r < op.count; ++r) {
      const std::int64_t one =
          pair_bytes(pair, pair.matching.pairs[op.first + r]);
      bytes += one;
      largest = std::max(largest, one);
    }
    const bool large = largest >= large_bytes;
    if (large) close();
    current.end = i + 1;
    current.rows += op.count;
    current.bytes += bytes;
    current.large = large;
    if (large || current.rows >= kJobRows || current.bytes >= kJobBytes) {
      close();
    }
  }
  close();
  return jobs;
}

}  // namespace assay
