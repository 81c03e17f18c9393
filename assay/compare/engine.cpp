#include "assay/compare/engine.h"

#include <tbb/task_arena.h>

#include <algorithm>
#include <utility>

#include "assay/base/huge_pages.h"
#include "assay/base/parallel.h"
#include "assay/compare/op_state.h"
#include "assay/compare/row_judge.h"
#include "assay/compare/schedule.h"
#include "assay/compare/undefined_memory.h"
#include "assay/metrics/judgement.h"

namespace assay {
namespace {

// Small tensor pairs in memory at a time, over all threads.
constexpr std::int64_t kBudget = 256 << 20;
constexpr std::int64_t kMinLarge = 4 << 20;
constexpr std::int64_t kMaxLarge = 64 << 20;
// Small jobs ahead of a large one may run before it, within this window.
constexpr std::int64_t kWindowBytes = 512 << 20;
constexpr std::size_t kWindowJobs = 1 << 16;

std::int64_t large_bytes() {
  return std::clamp(kBudget / std::max(thread_count(), 1), kMinLarge,
                    kMaxLarge);
}

std::string file_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// Loaders read a record's facts, so records with a file keep theirs. Values are
// read again when communication is followed.
RowSide take_side(Trace& trace, Record& record) {
  RowSide side;
  side.present = true;
  side.name = trace.name(record);
  if (record.file.empty()) {
    side.facts = std::move(record.facts);
  } else {
    side.facts = record.facts;
    side.file = file_name(record.file);
  }
  side.stats = record.stats;
  side.digest = std::move(record.digest);
  side.value = record.value;
  return side;
}

// Rows are large. Huge pages take a tenth of the page faults, and clearing
// them is shared by all threads, which growing a vector is not. Growth stays
// geometric over many groups.
void reserve_rows(std::vector<Row>& rows, std::size_t count) {
  if (count <= rows.capacity()) return;
  rows.reserve(std::max(count, 2 * rows.capacity()));
  populate_huge_pages(rows.data() + rows.size(),
                      (count - rows.size()) * sizeof(Row));
}

class PairJudge {
 public:
  PairJudge(TracePair& pair, const Standard& standard,
            const CompareOptions& options, ProgressMeter& progress,
            Comparison& out)
      : pair_(pair),
        standard_(standard),
        options_(options),
        progress_(progress),
        out_(out),
        first_row_(out.rows.size()),
        group_(static_cast<std::uint32_t>(out.groups.size())) {}

  void run() {
    reserve_rows(out_.rows, first_row_ + pair_.matching.pairs.size());
    out_.rows.resize(first_row_ + pair_.matching.pairs.size());
    out_.groups.emplace_back();
    describe_group(out_.groups.back());
    progress_.expect(static_cast<std::int64_t>(pair_.matching.pairs.size()));
    const std::vector<Job> jobs = make_jobs(pair_, large_bytes());
    for (std::size_t begin = 0; begin < jobs.size();) {
      begin = run_window(jobs, begin);
    }
    out_.golden_bytes += golden_bytes_;
    out_.target_bytes += target_bytes_;
    if (interrupted_) out_.interrupted = true;
  }

 private:
  void describe_group(Group& group) {
    Trace& golden = pair_.golden;
    Trace& target = pair_.target;
    group.step = golden.step;
    group.rank = golden.rank;
    group.golden_path = golden.path.string();
    group.target_path = target.path.string();
    group.stacks = std::move(golden.stacks);
    const auto offset = static_cast<std::int32_t>(group.stacks.size());
    std::move(target.stacks.begin(), target.stacks.end(),
              std::back_inserter(group.stacks));
    group.ops.resize(pair_.matching.ops.size());
    for (std::size_t i = 0; i < group.ops.size(); ++i) {
      describe_op(pair_.matching.ops[i], offset, group.ops[i]);
    }
  }

  // Names are copied: rows take theirs from the traces later.
  void describe_op(const OpPair& op, std::int32_t stack_offset, OpRow& row) {
    const bool in_golden = op.golden >= 0;
    const Op& source =
        in_golden ? pair_.golden.ops[op.golden] : pair_.target.ops[op.target];
    row.name = source.name;
    row.api = source.api;
    row.parent = op.parent;
    if (in_golden && source.stack >= 0) {
      row.stack = source.stack;
    } else if (op.target >= 0 && pair_.target.ops[op.target].stack >= 0) {
      row.stack = pair_.target.ops[op.target].stack + stack_offset;
    }
    row.first_row = static_cast<std::uint32_t>(first_row_ + op.first);
    row.row_count = op.count;
  }

  // Small jobs of the window in parallel, then the large ones, whose tensors
  // are parallel inside. The window bounds how far ahead of its turn a row is
  // judged, so that an interrupted run has compared the earliest operators.
  std::size_t run_window(const std::vector<Job>& jobs, std::size_t begin) {
    std::vector<const Job*> small, large;
    std::int64_t bytes = 0;
    std::size_t at = begin;
    for (; at < jobs.size() && bytes < kWindowBytes && at - begin < kWindowJobs;
         ++at) {
      (jobs[at].large ? large : small).push_back(&jobs[at]);
      bytes += jobs[at].bytes;
    }
    parallel_for(static_cast<std::int64_t>(small.size()),
                 [&](std::int64_t i) { run_isolated(*small[i]); });
    for (const Job* job : large) run_job(*job);
    return at;
  }

  // A thread that waits for the parallel part of one job must not begin
  // another: jobs would pile up on its stack, and their tensors in memory.
  void run_isolated(const Job& job) {
    tbb::this_task_arena::isolate([&] { run_job(job); });
  }

  bool stopped() const { return options_.stop && options_.stop->load(); }

  void run_job(const Job& job) {
    RowBytes bytes;
    for (std::uint32_t op = job.first; op < job.end; ++op) {
      const RowBytes one = run_op(op);
      bytes.golden += one.golden;
      bytes.target += one.target;
    }
    golden_bytes_ += bytes.golden;
    target_bytes_ += bytes.target;
    progress_.add(job.rows, bytes.golden + bytes.target);
  }

  // Inputs before outputs: how tightly an output is judged depends on whether
  // the inputs were equal.
  RowBytes run_op(std::uint32_t index) {
    const OpPair& op = pair_.matching.ops[index];
    if (op.count == 0) {
      out_.groups[group_].ops[index].verdict = Verdict::kEmpty;
      return {};
    }
    RowBytes bytes;
    bool has_input = false;
    bool inputs_equal = true;
    for (std::uint32_t i = 0; i < op.count; ++i) {
      if (!feeds(begin_row(op, index, i).role)) continue;
      judge(op, i, OpClass::kUnknown, bytes);
      has_input = true;
      inputs_equal = inputs_equal && is_known_equal(row(op, i));
    }
    const OpClass output_class =
        class_of_outputs(op, has_input && inputs_equal);
    for (std::uint32_t i = 0; i < op.count; ++i) {
      const Role role = row(op, i).role;
      if (feeds(role)) continue;
      judge(op, i, role == Role::kTensor ? OpClass::kUnknown : output_class,
            bytes);
    }
    conclude(op, out_.groups[group_].ops[index]);
    return bytes;
  }

  Row& row(const OpPair& op, std::uint32_t i) {
    return out_.rows[first_row_ + op.first + i];
  }

  Row& begin_row(const OpPair& op, std::uint32_t op_index, std::uint32_t i) {
    const RecordPair& records = pair_.matching.pairs[op.first + i];
    Row& row = this->row(op, i);
    row.group = group_;
    row.op = op_index;
    const Record& record = records.golden >= 0
                               ? pair_.golden.records[records.golden]
                               : pair_.target.records[records.target];
    row.role = record.role;
    row.is_tensor = record.is_tensor;
    if (records.golden >= 0) {
      row.golden =
          take_side(pair_.golden, pair_.golden.records[records.golden]);
    }
    if (records.target >= 0) {
      row.target =
          take_side(pair_.target, pair_.target.records[records.target]);
    }
    return row;
  }

  void judge(const OpPair& op, std::uint32_t i, OpClass op_class,
             RowBytes& bytes) {
    Row& row = this->row(op, i);
    if (stopped()) return interrupt(row);
    const RowTask task = make_task(op, i, op_class);
    const RowBytes one = judge_row(standard_, task, row);
    bytes.golden += one.golden;
    bytes.target += one.target;
    if (op.by == PairedBy::kAmbiguous) note_ambiguous(row);
  }

  void interrupt(Row& row) {
    row.verdict = Verdict::kIncomplete;
    Reason reason;
    reason.criterion = "interrupted";
    reason.text = "interrupted before this row was compared";
    row.reasons.push_back(std::move(reason));
    interrupted_ = true;
  }

  static void note_ambiguous(Row& row) {
    Reason reason;
    reason.criterion = "paired";
    reason.text =
        "paired by order alone: the two sides call this operator a different "
        "number of times";
    reason.note = true;
    row.reasons.push_back(std::move(reason));
  }

  RowTask make_task(const OpPair& op, std::uint32_t i, OpClass op_class) const {
    const RecordPair& records = pair_.matching.pairs[op.first + i];
    RowTask task;
    task.op = op_class;
    if (records.golden >= 0) {
      task.golden = {&pair_.golden, &pair_.golden.records[records.golden]};
    }
    if (records.target >= 0) {
      task.target = {&pair_.target, &pair_.target.records[records.target]};
    }
    if (!task.golden || !task.target) return task;
    task.undefined =
        op.golden >= 0 &&
        is_undefined_memory(pair_.golden, pair_.golden.ops[op.golden],
                            *task.golden.record);
    for (const CompanionTrace& baseline : pair_.baseline) {
      task.baseline = companion(baseline, records.golden);
    }
    for (const CompanionTrace& run : pair_.noise) {
      const RecordRef ref = companion(run, records.golden);
      if (ref) task.noise.push_back(ref);
    }
    return task;
  }

  static RecordRef companion(const CompanionTrace& other, std::int32_t golden) {
    const std::int32_t record = other.record_of[golden];
    if (record < 0 || other.trace.records[record].file.empty()) return {};
    return {&other.trace, &other.trace.records[record]};
  }

  OpClass class_of_outputs(const OpPair& op, bool inputs_equal) const {
    const Op& source = op.golden >= 0 ? pair_.golden.ops[op.golden]
                                      : pair_.target.ops[op.target];
    // A gradient also depends on what the forward saved, which may differ.
    const bool forward = source.direction == Direction::kForward;
    return class_given_inputs(op_class(source.name), forward && inputs_equal);
  }

  void conclude(const OpPair& op, OpRow& result) {
    Verdict verdict = Verdict::kEmpty;
    for (std::uint32_t i = 0; i < op.count; ++i) {
      verdict = worse(verdict, row(op, i).verdict);
    }
    result.verdict = verdict;
  }

  TracePair& pair_;
  const Standard& standard_;
  const CompareOptions& options_;
  ProgressMeter& progress_;
  Comparison& out_;
  std::size_t first_row_;
  std::uint32_t group_;
  std::atomic<std::int64_t> golden_bytes_{0}, target_bytes_{0};
  std::atomic<bool> interrupted_{false};
};

}  // namespace

void ProgressMeter::add(std::int64_t rows, std::int64_t bytes) {
  const std::int64_t done = done_ += rows;
  const std::int64_t moved = bytes_ += bytes;
  if (!options_.progress) return;
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
  std::int64_t last = last_ms_;
  if (now - last < 200 || !last_ms_.compare_exchange_strong(last, now)) return;
  options_.progress(done, total_, moved);
}

void judge_pair(TracePair& pair, const Standard& standard,
                const CompareOptions& options, ProgressMeter& progress,
                Comparison& out) {
  PairJudge(pair, standard, options, progress, out).run();
}

}  // namespace assay
