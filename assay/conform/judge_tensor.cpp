#include "assay/conform/judge_tensor.h"

#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "assay/compare/row_judge.h"

namespace assay::conform {
namespace {

// A trace of one tensor, as row judging wants it.
class OneTensor : public TensorLoader {
 public:
  explicit OneTensor(Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensor load(const Record&) const override { return tensor_; }

 private:
  Tensor tensor_;
};

SideFacts facts_of(const Tensor& tensor) {
  SideFacts facts;
  facts.dtype = tensor.dtype();
  facts.dtype_text = traits(tensor.dtype()).name;
  facts.shape = tensor.shape();
  return facts;
}

Trace trace_of(const std::string& name, const Tensor* tensor) {
  Trace trace;
  trace.task = "tensor";
  if (!tensor) return trace;
  Op op;
  op.name = name;
  op.record_count = 1;
  trace.ops.push_back(std::move(op));
  Record record;
  record.leaf = name;
  record.facts = facts_of(*tensor);
  record.file = name;
  trace.records.push_back(std::move(record));
  trace.loader = std::make_shared<OneTensor>(*tensor);
  return trace;
}

RecordRef only_record(const Trace& trace) {
  if (trace.records.empty()) return {};
  return {&trace, &trace.records[0]};
}

RowSide side_of(const RecordRef& ref) {
  RowSide side;
  if (!ref) return side;
  side.present = true;
  side.name = ref.record->leaf;
  side.facts = ref.record->facts;
  return side;
}

void put_figures(const ErrorStats& stats, Check& check) {
  check.max_abs = stats.max_abs;
  check.max_rel = stats.max_rel;
  check.norm_l2 = stats.norm_l2;
  if (stats.bitwise_equal) check.ulp_max = 0;
  if (stats.detail) check.ulp_max = stats.detail->ulp_max;
  check.index = stats.max_abs_index;
}

Check check_of(const Row& row, const TensorPair& pair,
               const Standard& standard) {
  Check check = make_check(pair.name, pair.rank, row.verdict, "", "");
  check.standard = standard.name();
  if (row.stats) put_figures(*row.stats, check);
  const Reason* reason = deciding_reason(row);
  // NaN and infinities alike everywhere are compared, but no evidence. `assay
  // compare` leaves that open; here the inputs are chosen, and what else the
  // case gives decides.
  if (row.stats && reason && reason->criterion == "no_finite_evidence") {
    check.verdict = Verdict::kEmpty;
    check.text = "NaN and infinities at the same places, nothing finite";
    return check;
  }
  if (reason && row.verdict != Verdict::kMatch) {
    check.criterion = reason->criterion;
    check.text = reason->text;
    if (reason->index >= 0) check.index = reason->index;
  } else if (!row.reasons.empty()) {
    check.text = row.reasons[0].text;
  }
  return check;
}

}  // namespace

Check make_check(std::string name, int rank, Verdict verdict,
                 std::string criterion, std::string text) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Check check;
  check.name = std::move(name);
  check.rank = rank;
  check.verdict = verdict;
  check.criterion = std::move(criterion);
  check.text = std::move(text);
  check.max_abs = check.max_rel = check.norm_l2 = check.ulp_max = kNone;
  return check;
}

Tensor as_bytes(const Tensor& tensor) {
  Tensor bytes = contiguous(tensor);
  const std::int64_t size =
      static_cast<std::int64_t>(bytes.view.bytes().size());
  Shape shape = tensor.shape();
  if (shape.empty()) shape.push_back(1);
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  shape.back() = rows > 0 ? size / rows : 0;
  // Rows of an odd number of nibbles share bytes: then there are no rows.
  if (rows > 0 && shape.back() * rows != size) shape = {size};
  bytes.view.dtype = DType::kU8;
  bytes.view.shape = std::move(shape);
  bytes.view.strides.clear();
  return bytes;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor left = contiguous(a), right = contiguous(b);
  const auto x = left.view.bytes(), y = right.view.bytes();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0;
}

Check judge_tensors(const TensorPair& pair, const Standard& standard,
                    OpClass op) {
  if (!pair.golden && !pair.target)
    return make_check(pair.name, pair.rank, Verdict::kIncomplete, "missing",
                      "neither side gives it");
  const Trace golden = trace_of(pair.name, pair.golden);
  const Trace target = trace_of(pair.name, pair.target);
  RowTask task;
  task.golden = only_record(golden);
  task.target = only_record(target);
  task.op = op;
  Row row;
  row.golden = side_of(task.golden);
  row.target = side_of(task.target);
  judge_row(standard, task, row);
  return check_of(row, pair, standard);
}

}  // namespace assay::conform
