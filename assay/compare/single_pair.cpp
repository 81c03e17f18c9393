#include "assay/compare/single_pair.h"

#include <memory>
#include <utility>

#include "assay/compare/row_judge.h"

namespace assay {
namespace {

// A trace of one tensor, as row judging wants it.
class OneTensor : public TensorLoader {
 public:
  explicit OneTensor(Tensor tensor) : tensor_(std::move(tensor)) {}
  Tensor load(const Record&) const override { return tensor_; }

 private:
  Tensor tensor_;
};

Trace trace_of(const std::string& name, const SingleSide* side) {
  Trace trace;
  trace.task = "tensor";
  if (!side) return trace;
  Op op;
  op.name = name;
  op.record_count = 1;
  trace.ops.push_back(std::move(op));
  Record record;
  record.leaf = name;
  record.is_tensor = side->is_tensor;
  record.type = side->type;
  record.facts = side->facts;
  record.value = side->value;
  record.unreadable = side->unreadable;
  if (side->tensor) {
    record.file = name.empty() ? "tensor" : name;
    trace.loader = std::make_shared<OneTensor>(*side->tensor);
  }
  trace.records.push_back(std::move(record));
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
  side.value = ref.record->value;
  return side;
}

}  // namespace

SingleSide SingleSide::of(const Tensor& tensor) {
  SingleSide side;
  side.tensor = tensor;
  side.facts.dtype = tensor.dtype();
  side.facts.dtype_text = traits(tensor.dtype()).name;
  side.facts.shape = tensor.shape();
  return side;
}

Row judge_single(const Standard& standard, OpClass op, const std::string& name,
                 const SingleSide* golden, const SingleSide* target) {
  const Trace a = trace_of(name, golden);
  const Trace b = trace_of(name, target);
  RowTask task;
  task.golden = only_record(a);
  task.target = only_record(b);
  task.op = op;
  Row row;
  row.is_tensor = (golden ? golden : target)->is_tensor;
  row.golden = side_of(task.golden);
  row.target = side_of(task.target);
  judge_row(standard, task, row);
  return row;
}

}  // namespace assay
