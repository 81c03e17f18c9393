// assay._core: pairs of values in memory, judged as `assay compare` judges the
// records of two dumps.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "assay/base/error.h"
#include "assay/compare/single_pair.h"
#include "assay/compare/summary.h"
#include "assay/metrics/pattern.h"
#include "assay/report/json.h"
#include "assay/report/terminal.h"
#include "bindings.h"
#include "tensor_argument.h"

namespace assay::python {
namespace {

using Clock = std::chrono::steady_clock;

// Of a state dict of which everything differs, the first rows are explained.
constexpr int kCauses = 20;

// A shipped standard is read once: parsing takes a millisecond, a small pair
// some microseconds. A file may have changed since.
std::shared_ptr<const Standard> standard_named(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Standard>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  auto standard = Standard::load(name);
  for (const std::string& shipped : Standard::shipped())
    if (shipped == name) known.emplace(name, standard);
  return standard;
}

// One side of a pair; keeps the memory of an array alive.
struct Side {
  SingleSide side;
  AnyArray array;
};

Side tensor_side(const AnyArray& array, const std::string& dtype) {
  Tensor tensor;
  tensor.view = view_of(array, dtype);
  return {SingleSide::of(tensor), array};
}

Side unreadable_side(std::string why, const std::string& dtype,
                     std::vector<std::int64_t> shape) {
  Side side;
  side.side.unreadable = std::move(why);
  side.side.facts.dtype = parse_dtype(dtype);
  side.side.facts.dtype_text = dtype;
  side.side.facts.shape = std::move(shape);
  return side;
}

Side value_side(std::string type, std::string text, std::string unreadable) {
  Side side;
  side.side.is_tensor = false;
  side.side.type = std::move(type);
  side.side.value = std::move(text);
  side.side.unreadable = std::move(unreadable);
  return side;
}

std::int64_t bytes_of(const SingleSide& side) {
  const TensorView& view = side.tensor->view;
  return storage_bytes(view.dtype, view.numel()).value_or(0);
}

// The library is free of Python's lock only while it compares: what came of it
// is one object that several threads may add to.
class Pairs {
 public:
  explicit Pairs(const std::string& standard)
      : standard_(standard_named(standard)) {
    result_.standard = standard_->name();
    result_.standard_source = standard_->source();
    result_.standard_date = standard_->date();
    result_.groups.emplace_back();
  }
  Pairs(const Pairs&) = delete;
  Pairs& operator=(const Pairs&) = delete;

  std::string add(const std::string& name, const std::string& op,
                  const Side* golden, const Side* target) {
    if (!golden && !target)
      throw Error(Code::kUsage, "pair '" + name + "' has no side");
    const auto begin = Clock::now();
    Row row;
    {
      nb::gil_scoped_release release;
      row = judge(name, op, golden ? &golden->side : nullptr,
                  target ? &target->side : nullptr);
    }
    if (row.evidence == Evidence::kTensor) {
      result_.golden_bytes += bytes_of(golden->side);
      result_.target_bytes += bytes_of(target->side);
    }
    const std::chrono::duration<double> spent = Clock::now() - begin;
    result_.seconds += spent.count();
    if (row.verdict == Verdict::kMismatch) ++mismatches_;
    result_.rows.push_back(std::move(row));
    return std::string(to_string(result_.rows.back().verdict));
  }

  std::string json() {
    summarise(result_);
    return json_text(result_);
  }

  std::string text(std::size_t rows) {
    summarise(result_);
    TerminalOptions options;
    options.rows = rows;
    options.header = false;
    options.more = ".rows has all";
    return render_terminal(result_, options);
  }

 private:
  Row judge(const std::string& name, const std::string& op,
            const SingleSide* golden, const SingleSide* target) const {
    const OpClass kind = op.empty() ? OpClass::kUnknown : op_class(op);
    Row row = judge_single(*standard_, kind, name, golden, target);
    if (row.verdict == Verdict::kMismatch && row.stats &&
        mismatches_ < kCauses) {
      row.cause = guess_cause(golden->tensor->view, target->tensor->view,
                              *row.stats, kind, op);
    }
    return row;
  }

  std::shared_ptr<const Standard> standard_;
  Comparison result_;
  int mismatches_ = 0;
};

}  // namespace

void bind_pairs(nb::module_& m) {
  nb::class_<Side>(m, "Side", "One side of a pair.")
      .def_static("tensor", &tensor_side, nb::arg("array"),
                  nb::arg("dtype") = "")
      .def_static("unreadable", &unreadable_side, nb::arg("why"),
                  nb::arg("dtype") = "",
                  nb::arg("shape") = std::vector<std::int64_t>{})
      .def_static("value", &value_side, nb::arg("type"), nb::arg("text"),
                  nb::arg("unreadable") = "");

  nb::class_<Pairs>(m, "Pairs",
                    "Pairs of values in memory, compared as they come.")
      .def(nb::init<const std::string&>(), nb::arg("standard") = "assay")
      .def("add", &Pairs::add, nb::arg("name"), nb::arg("op"),
           nb::arg("golden").none(), nb::arg("target").none(),
           "Compares a pair; None is a side that is not there. Gives the "
           "row's verdict.")
      .def("json", &Pairs::json, "The document of docs/json-output.md.")
      .def("text", &Pairs::text, nb::arg("rows") = 10,
           "What `assay compare` prints, less its first line.");
}

}  // namespace assay::python
