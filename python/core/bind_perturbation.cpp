// assay._core: the judgement of perturbed calls, for python/assay/fuzz.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/hash.h"
#include "assay/compare/perturbation/collection.h"
#include "assay/compare/perturbation/probe.h"
#include "assay/report/csv.h"
#include "assay/report/html.h"
#include "assay/report/json.h"
#include "assay/report/junit.h"
#include "assay/report/row_journal.h"
#include "assay/report/terminal.h"
#include "assay/report/xlsx.h"
#include "bindings.h"
#include "tensor_argument.h"

namespace assay::python {
namespace {

using perturbation::Law;
using perturbation::Mode;
using perturbation::Place;
using perturbation::Probe;

// An array and the name of its dtype, as assay.tensors.host_view gives them.
struct Viewed {
  explicit Viewed(const nb::tuple& host)
      : array(nb::cast<AnyArray>(host[0])),
        view(view_of(array, nb::cast<std::string>(host[1]))) {}
  AnyArray array;
  TensorView view;
};

std::vector<TensorView> views_of(const std::vector<Viewed>& arrays) {
  std::vector<TensorView> views;
  for (const Viewed& one : arrays) views.push_back(one.view);
  return views;
}

std::vector<Viewed> viewed(const std::vector<nb::tuple>& hosts) {
  return {hosts.begin(), hosts.end()};
}

Verdict verdict_named(const std::string& name) {
  for (const Verdict one : {Verdict::kMatch, Verdict::kMismatch,
                            Verdict::kIncomplete, Verdict::kEmpty})
    if (to_string(one) == name) return one;
  throw Error(Code::kUsage, "verdict: '" + name + "'");
}

// Whether a call belongs to a sample: by its name and step, so that each run
// of a program looks at the same ones.
bool in_sample(const std::string& name, std::int64_t step, std::uint64_t seed,
               double share) {
  const Hash128 hash = hash128(name + "/" + std::to_string(step), seed);
  return static_cast<double>(hash.low >> 11) * 0x1p-53 < share;
}

class Perturbations {
 public:
  Perturbations(const std::string& mode, const std::string& standard,
                std::int64_t rank, const std::string& journal)
      : mode_(perturbation::mode_named(mode)),
        standard_(Standard::load(standard)),
        rows_(*standard_, mode_, rank) {
    if (!journal.empty()) journal_.emplace(journal);
  }

  void step(std::int64_t number) {
    rows_.step(number);
    if (journal_) journal_->counts(rows_);
  }

  Probe probe(const std::string& api, const std::string& row,
              const std::string& wide) const {
    return Probe(standard_, mode_, op_class(api), row, wide);
  }

  std::string add(Probe& probe, const std::string& op, const std::string& api,
                  const std::string& module) {
    const Place place = {op, api, module};
    const Row& row = rows_.add(probe.take(), place);
    if (journal_) journal_->row(rows_.as_is(), row, place);
    return std::string(to_string(row.verdict));
  }

  void skip(const std::string& api, const std::string& why,
            const std::string& verdict) {
    rows_.skip(api, why, verdict_named(verdict));
  }

  void left_out() { rows_.left_out(1); }

  void warn(const std::string& text) {
    rows_.warn(text);
    if (journal_) journal_->warning(text);
  }

  Law law(const std::string& api, const nb::tuple& wide,
          const std::optional<nb::tuple>& exchanged_wide,
          const nb::tuple& wide_of_exchanged) const {
    const Viewed base(wide), run(wide_of_exchanged);
    std::optional<Viewed> exchanged;
    if (exchanged_wide) exchanged.emplace(*exchanged_wide);
    return perturbation::law_of(*standard_, op_class(api), base.view,
                                exchanged ? &exchanged->view : nullptr,
                                run.view);
  }

  std::string json() { return json_text(rows_.result()); }

  std::string text(std::size_t rows) {
    TerminalOptions options;
    options.rows = rows;
    options.more = ".report.rows has all";
    return render_terminal(rows_.result(), options);
  }

  void save(const std::string& html, const std::string& json,
            const std::string& csv, const std::string& xlsx,
            const std::string& junit) {
    const Comparison& result = rows_.result();
    if (!html.empty()) write_html(result, html);
    if (!json.empty()) write_json(result, json);
    if (!csv.empty()) write_csv(result, csv);
    if (!xlsx.empty()) write_xlsx(result, xlsx);
    if (!junit.empty()) write_junit(result, junit);
  }

 private:
  Mode mode_;
  std::shared_ptr<const Standard> standard_;
  perturbation::Collection rows_;
  std::optional<RowJournal> journal_;
};

void explain(Probe& self, const nb::tuple& base,
             const std::vector<nb::tuple>& runs) {
  const Viewed from(base);
  const std::vector<Viewed> all = viewed(runs);
  self.explain(from.view, views_of(all));
}

void decide(Probe& self, const nb::tuple& golden, const nb::tuple& target,
            const nb::tuple& base, const std::vector<nb::tuple>& runs) {
  const Viewed a(golden), b(target), from(base);
  const std::vector<Viewed> all = viewed(runs);
  self.decide(a.view, b.view, from.view, views_of(all));
}

bool answered(Probe& self, const nb::tuple& original,
              const nb::tuple& perturbed, const nb::tuple& wide,
              const nb::tuple& wide_perturbed, const nb::tuple& target) {
  const Viewed a(original), b(perturbed), w(wide), v(wide_perturbed),
      found(target);
  return self.answered({a.view, b.view, w.view, v.view}, found.view);
}

}  // namespace

void bind_perturbation(nb::module_& m) {
  nb::enum_<Law>(m, "Law", "What exchanging slices of an input does.")
      .value("none", Law::kNone)
      .value("moves_exactly", Law::kMovesExactly)
      .value("moves", Law::kMoves)
      .value("stays", Law::kStays);

  nb::class_<Probe>(m, "Probe",
                    "One output of a perturbed call. Tensors are what "
                    "assay.tensors.host_view gives; see probe.h.")
      .def("repeated",
           [](Probe& self, const nb::tuple& a, const nb::tuple& b) {
             const Viewed x(a), y(b);
             self.repeated(x.view, y.view);
           })
      .def("against",
           [](Probe& self, const nb::tuple& golden, const nb::tuple& target) {
             const Viewed x(golden), y(target);
             return self.against(x.view, y.view);
           })
      .def("moved",
           [](Probe& self, const nb::tuple& original,
              const nb::tuple& perturbed, double delta) {
             const Viewed x(original), y(perturbed);
             return self.moved(x.view, y.view, delta);
           })
      .def("answered", &answered, nb::arg("original"), nb::arg("perturbed"),
           nb::arg("wide"), nb::arg("wide_perturbed"), nb::arg("target"))
      .def("exchanged",
           [](Probe& self, Law law, const nb::tuple& expected,
              const nb::tuple& found) {
             const Viewed x(expected), y(found);
             return self.exchanged(law, x.view, y.view);
           })
      .def("explain", &explain, nb::arg("base"), nb::arg("runs"))
      .def("decide", &decide, nb::arg("golden"), nb::arg("target"),
           nb::arg("base"), nb::arg("runs"))
      .def("incomplete", &Probe::incomplete, nb::arg("criterion"),
           nb::arg("why"))
      .def("note", &Probe::note, nb::arg("criterion"), nb::arg("text"))
      .def_prop_ro("verdict", [](const Probe& self) {
        return std::string(to_string(self.verdict()));
      });

  nb::class_<Perturbations>(m, "Perturbations",
                            "The rows of a perturbation check.")
      .def(nb::init<const std::string&, const std::string&, std::int64_t,
                    const std::string&>(),
           nb::arg("mode"), nb::arg("standard") = "assay", nb::arg("rank") = 0,
           nb::arg("journal") = "")
      .def("step", &Perturbations::step, nb::arg("number"))
      .def("probe", &Perturbations::probe, nb::arg("api"), nb::arg("row"),
           nb::arg("wide") = "float64")
      .def("add", &Perturbations::add, nb::arg("probe"), nb::arg("op"),
           nb::arg("api"), nb::arg("module") = "",
           "Keeps the row, which the probe no longer has; gives its verdict.")
      .def("skip", &Perturbations::skip, nb::arg("api"), nb::arg("why"),
           nb::arg("verdict") = "empty")
      .def("left_out", &Perturbations::left_out)
      .def("warn", &Perturbations::warn, nb::arg("text"))
      .def("law", &Perturbations::law, nb::arg("api"), nb::arg("wide"),
           nb::arg("exchanged_wide").none(), nb::arg("wide_of_exchanged"))
      .def("json", &Perturbations::json, "The document of docs/json-output.md.")
      .def("text", &Perturbations::text, nb::arg("rows") = 10)
      .def("save", &Perturbations::save, nb::arg("html") = "",
           nb::arg("json") = "", nb::arg("csv") = "", nb::arg("xlsx") = "",
           nb::arg("junit") = "");

  m.def("fuzz_modes", &perturbation::mode_names);
  m.def(
      "moves_values",
      [](const std::string& api) {
        return op_class(api) == OpClass::kMovement;
      },
      nb::arg("api"));
  m.def("in_sample", &in_sample, nb::arg("name"), nb::arg("step"),
        nb::arg("seed"), nb::arg("share"));
}

}  // namespace assay::python
