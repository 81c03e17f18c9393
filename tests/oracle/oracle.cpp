#include "tests/oracle/oracle.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "assay/base/error.h"
#include "assay/formats/tensor_source.h"
#include "assay/numerics/element.h"
#include "tests/oracle/expect.h"
#include "tests/oracle/index.h"

namespace assay::oracle {

struct Case::Impl {
  std::string file;
  std::string params;
  std::map<std::string, Tensor, std::less<>> arrays;
  std::vector<std::string> notes;  // what the reader left out of the file
  std::set<std::string, std::less<>> taken = {};  // arrays a handler took
};

namespace {

using Failures = std::vector<std::string>;

std::map<std::string, Handler, std::less<>>& handlers() {
  static std::map<std::string, Handler, std::less<>> all;
  return all;
}

Handler find_handler(std::string_view name) {
  Handler found = nullptr;
  std::size_t length = 0;
  for (const auto& [prefix, handler] : handlers()) {
    if (name.substr(0, prefix.size()) != prefix || prefix.size() < length)
      continue;
    found = handler;
    length = prefix.size();
  }
  return found;
}

std::string no_handler() {
  std::string out = "no handler for this file; known prefixes:";
  for (const auto& [prefix, handler] : handlers()) out += " " + prefix;
  return out;
}

[[noreturn]] void bad_array(const Case::Impl& c, std::string_view name,
                            const std::string& what) {
  throw Error(Code::kUsage,
              c.file + ": array \"" + std::string(name) + "\" " + what);
}

std::string name_of(DType dtype) { return std::string(traits(dtype).name); }

std::shared_ptr<Case::Impl> load_case(const std::filesystem::path& folder,
                                      const IndexedFile& entry) {
  auto c = std::make_shared<Case::Impl>();
  c->file = entry.file;
  c->params = entry.params;
  const auto source = open_tensors(folder / entry.file);
  c->notes = source->notes();
  for (std::size_t i = 0; i < source->tensors().size(); ++i)
    c->arrays[source->tensors()[i].name] = contiguous(source->load(i));
  return c;
}

std::string about(const std::string& array, const std::string& what) {
  return "array " + array + ": " + what;
}

// Where the index and the file do not tell of the same arrays.
void compare_contents(const IndexedFile& entry, const Case::Impl& c,
                      Failures& failures) {
  std::set<std::string> listed;
  for (const auto& [name, dtype, shape, expect] : entry.arrays) {
    listed.insert(name);
    if (!expect) failures.push_back(about(name, "no \"expect\" in the index"));
    const auto stored = c.arrays.find(name);
    if (stored == c.arrays.end()) {
      failures.push_back(about(name, "in the index, not in the file"));
      continue;
    }
    const Tensor& tensor = stored->second;
    if (dtype && parse_dtype(*dtype) != tensor.dtype())
      failures.push_back(about(name, "dtype " + *dtype + " in the index, " +
                                         name_of(tensor.dtype()) +
                                         " in the file"));
    if (shape && *shape != tensor.shape())
      failures.push_back(
          about(name, "shape " + to_string(*shape) + " in the index, " +
                          to_string(tensor.shape()) + " in the file"));
  }
  for (const auto& [name, tensor] : c.arrays)
    if (listed.count(name) == 0)
      failures.push_back(about(name, "in the file, not in the index"));
  for (const auto& note : c.notes) failures.push_back(note);
}

// "y_bias_gelu_f64" is judged against "y_absdot_f64".
const Tensor* absdot_of(const Case::Impl& c, std::string name) {
  while (!name.empty()) {
    const auto found = c.arrays.find(name + "_absdot_f64");
    if (found != c.arrays.end()) return &found->second;
    const auto cut = name.rfind('_');
    name = cut == std::string::npos ? "" : name.substr(0, cut);
  }
  return nullptr;
}

// Ours must be the rounding of our wider array, and the reference that of the
// reference's, which is compared on its own.
std::string judge_rounding(const Case::Impl& c, const Answers& answers,
                           const Tensor& ours, const Tensor& stored,
                           const Expectation& e) {
  const auto our_wide = answers.given().find(e.of);
  const auto stored_wide = c.arrays.find(e.of);
  if (our_wide == answers.given().end()) return e.of + " was not computed";
  if (stored_wide == c.arrays.end()) return e.of + " is not in the file";
  const std::string failure = compare(e, ours, stored, &our_wide->second);
  if (!failure.empty()) return failure;
  Tensor reference = stored;
  reference.view.dtype = ours.dtype();
  const std::string self = compare(e, reference, stored, &stored_wide->second);
  return self.empty() ? "" : "the reference is no rounding of its own: " + self;
}

std::string judge(const Case::Impl& c, const Answers& answers,
                  const std::string& name, const Expectation& e) {
  const auto given = answers.given().find(name);
  if (given == answers.given().end()) return "not computed";
  const Tensor ours = contiguous(given->second);
  const Tensor& stored = c.arrays.at(name);
  if (e.kind == Expectation::Kind::kRounding)
    return judge_rounding(c, answers, ours, stored, e);
  const Tensor* absdot = nullptr;
  if (e.kind == Expectation::Kind::kAbsDot) {
    absdot = absdot_of(c, name);
    if (absdot == nullptr) return "no absdot array";
  }
  return compare(e, ours, stored, absdot);
}

void judge_all(const IndexedFile& entry, const Case::Impl& c,
               const Answers& answers, Outcome& outcome) {
  for (const IndexedArray& array : entry.arrays) {
    const auto stored = c.arrays.find(array.name);
    if (!array.expect || stored == c.arrays.end()) continue;  // failed already
    const Expectation e =
        parse_expectation(*array.expect, stored->second.dtype());
    std::string failure;
    if (e.kind == Expectation::Kind::kInput) {
      if (c.taken.count(array.name) == 0)
        failure = "an input that the handler never read";
    } else if (e.kind != Expectation::Kind::kInfo) {
      ++outcome.arrays;
      failure = judge(c, answers, array.name, e);
    }
    if (!failure.empty())
      outcome.failures.push_back(about(array.name, failure));
  }
  if (outcome.arrays == 0) outcome.failures.push_back("nothing to compare");
}

Outcome run_file(const std::filesystem::path& folder,
                 const IndexedFile& entry) {
  Outcome outcome;
  outcome.file = entry.file;
  const Handler handler = find_handler(entry.file);
  if (handler == nullptr) {
    outcome.failures.push_back(no_handler());
    return outcome;
  }
  try {
    const auto impl = load_case(folder, entry);
    compare_contents(entry, *impl, outcome.failures);
    const Case c(impl);
    Answers answers;
    handler(c, answers);
    for (const auto& name : c.unread())
      outcome.failures.push_back("parameter " + name +
                                 ": the handler does not know it");
    judge_all(entry, *impl, answers, outcome);
  } catch (const std::exception& error) {
    outcome.failures.push_back(error.what());
  }
  return outcome;
}

bool matches(const std::string& file, const std::string& glob) {
  const std::string stem = file.substr(0, file.rfind('.'));
  return fnmatch(glob.c_str(), stem.c_str(), 0) == 0 ||
         fnmatch(glob.c_str(), file.c_str(), 0) == 0;
}

Outcome failed(const std::string& file, const std::string& why) {
  return {file, 0, {why}};
}

// Vectors of the folder that nobody asked to compare, by name.
std::set<std::string> unlisted(const std::filesystem::path& folder,
                               const std::set<std::string>& listed) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".npz" && listed.count(name) == 0)
      out.insert(name);
  }
  return out;
}

}  // namespace

Registration::Registration(std::string_view prefix, Handler handler) {
  handlers().emplace(prefix, handler);
}

Case::Case(std::shared_ptr<Impl> impl)
    : Parameters(impl->file, impl->params), impl_(std::move(impl)) {}

std::string Case::name() const {
  return impl_->file.substr(0, impl_->file.rfind('.'));
}
bool Case::has_array(std::string_view name) const {
  return impl_->arrays.find(name) != impl_->arrays.end();
}
std::vector<std::string> Case::arrays() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : impl_->arrays) names.push_back(name);
  return names;
}
Tensor Case::array(std::string_view name) const {
  const auto found = impl_->arrays.find(name);
  if (found == impl_->arrays.end()) bad_array(*impl_, name, "is absent");
  impl_->taken.emplace(name);
  return found->second;
}
Tensor Case::as(std::string_view name, DType dtype) const {
  Tensor tensor = array(name);
  const bool packed = dtype == DType::kE2M1 && tensor.dtype() == DType::kU8 &&
                      !tensor.shape().empty();
  if (packed)
    tensor.view.shape.back() *= 2;
  else if (traits(dtype).bits != traits(tensor.dtype()).bits)
    bad_array(*impl_, name,
              "is " + name_of(tensor.dtype()) + ", expected codes of " +
                  name_of(dtype));
  tensor.view.dtype = dtype;
  return tensor;
}
Tensor Case::input(std::string_view name) const {
  const Tensor tensor = array(name);
  const bool codes = tensor.dtype() == DType::kU16;
  if (!has("input")) return codes ? as(name, DType::kBF16) : tensor;
  const auto stated = choice<DType>("input", {{"float32", DType::kF32},
                                              {"bf16 bits", DType::kBF16},
                                              {"fp16 bits", DType::kF16}});
  const DType stored = stated == DType::kF32 ? DType::kF32 : DType::kU16;
  if (tensor.dtype() != stored)
    bad_array(*impl_, name,
              "is " + name_of(tensor.dtype()) + ", parameter \"input\" is \"" +
                  text("input") + "\"");
  return as(name, stated);
}
std::vector<double> Case::values(std::string_view name) const {
  const Tensor tensor = array(name);
  std::vector<double> out(static_cast<std::size_t>(tensor.numel()));
  load_as_doubles(tensor.dtype(), tensor.view.data, 0, tensor.numel(),
                  out.data());
  return out;
}
double Case::scalar(std::string_view name) const {
  const std::vector<double> all = values(name);
  if (all.size() != 1) bad_array(*impl_, name, "must have one element");
  return all.front();
}
std::int64_t Case::dim(std::string_view name, int axis) const {
  const Shape shape = array(name).shape();
  const auto rank = static_cast<int>(shape.size());
  const int index = axis < 0 ? rank + axis : axis;
  if (index < 0 || index >= rank)
    bad_array(*impl_, name, "has shape " + to_string(shape));
  return shape[static_cast<std::size_t>(index)];
}

void Answers::give(std::string_view array, Tensor ours) {
  given_.insert_or_assign(std::string(array), std::move(ours));
}

std::vector<Outcome> run_folder(const std::filesystem::path& folder,
                                std::string_view only) {
  const Index index = read_index(folder);
  const std::string glob(only);
  std::vector<Outcome> outcomes;
  std::set<std::string> listed;
  for (const IndexedFile& entry : index.files) {
    const bool again = !listed.insert(entry.file).second;
    if (!matches(entry.file, glob)) continue;
    outcomes.push_back(again ? failed(entry.file, "listed twice in the index")
                             : run_file(folder, entry));
  }
  for (const std::string& file : unlisted(folder, listed))
    if (matches(file, glob))
      outcomes.push_back(failed(file, "in the folder, not in the index"));
  const auto count = static_cast<std::int64_t>(index.files.size());
  if (index.count && *index.count != count)
    outcomes.push_back(
        failed("INDEX.json", "\"count\" is " + std::to_string(*index.count) +
                                 ", its list has " + std::to_string(count)));
  return outcomes;
}

}  // namespace assay::oracle
