// assay._core: random numbers of whole arrays, into memory that Python owns.
#include <nanobind/stl/string.h>

#include <utility>

#include "assay/base/error.h"
#include "assay/kernels/random_fill.h"
#include "bindings.h"
#include "tensor_argument.h"

namespace assay::python {
namespace {

using OutArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

Law law_named(const std::string& name) {
  constexpr std::pair<const char*, Law> kLaws[] = {
      {"uniform", Law::kUniform},         {"normal", Law::kNormal},
      {"exponential", Law::kExponential}, {"cauchy", Law::kCauchy},
      {"log_normal", Law::kLogNormal},    {"geometric", Law::kGeometric}};
  for (const auto& [known, law] : kLaws)
    if (name == known) return law;
  throw Error(Code::kUsage, "random_fill: law '" + name + "' is unknown");
}

// The elements as T, once the dtype is known to be that.
template <typename T>
T* elements(const OutArray& array, DType expected) {
  const DType found = view_of(AnyArray(array.handle())).dtype;
  if (found != expected)
    throw Error(Code::kUsage,
                "random numbers into " + std::string(traits(found).name) +
                    ", expected " + std::string(traits(expected).name));
  return static_cast<T*>(array.data());
}

std::int64_t count(const OutArray& array) {
  return static_cast<std::int64_t>(array.size());
}

void fill(const OutArray& out, std::uint64_t key, std::uint64_t stream,
          const std::string& law_name, double a, double b) {
  const DType dtype = view_of(AnyArray(out.handle())).dtype;
  const Law law = law_named(law_name);
  nb::gil_scoped_release release;
  random_fill({key, stream}, law, a, b, dtype,
              static_cast<std::byte*>(out.data()), count(out));
}

void bernoulli(const OutArray& out, std::uint64_t key, std::uint64_t stream,
               double p) {
  auto* to = elements<std::uint8_t>(out, DType::kU8);
  nb::gil_scoped_release release;
  random_bernoulli({key, stream}, p, to, count(out));
}

void bernoulli_each(const OutArray& out, std::uint64_t key,
                    std::uint64_t stream, const OutArray& p) {
  auto* to = elements<std::uint8_t>(out, DType::kU8);
  const double* each = elements<double>(p, DType::kF64);
  if (p.size() != out.size())
    throw Error(Code::kUsage, "bernoulli: " + std::to_string(p.size()) +
                                  " probabilities of " +
                                  std::to_string(out.size()) + " elements");
  nb::gil_scoped_release release;
  random_bernoulli({key, stream}, each, to, count(out));
}

void integers(const OutArray& out, std::uint64_t key, std::uint64_t stream,
              std::int64_t low, std::uint64_t width) {
  auto* to = elements<std::int64_t>(out, DType::kI64);
  nb::gil_scoped_release release;
  random_integers({key, stream}, low, width, to, count(out));
}

void permutation(const OutArray& out, std::uint64_t key, std::uint64_t stream) {
  auto* to = elements<std::int64_t>(out, DType::kI64);
  nb::gil_scoped_release release;
  random_permutation({key, stream}, to, count(out));
}

void choice(const OutArray& out, std::uint64_t key, std::uint64_t stream,
            const OutArray& weights, bool replacement) {
  auto* to = elements<std::int64_t>(out, DType::kI64);
  const double* from = elements<double>(weights, DType::kF64);
  if (out.ndim() != 2 || weights.ndim() != 2 ||
      out.shape(0) != weights.shape(0))
    throw Error(Code::kUsage,
                "random_choice: expected two matrices of as many rows");
  const auto size = [](const OutArray& array, std::size_t d) {
    return static_cast<std::int64_t>(array.shape(d));
  };
  const Choice what{size(out, 0), size(weights, 1), size(out, 1), replacement};
  nb::gil_scoped_release release;
  random_choice({key, stream}, what, from, to);
}

}  // namespace

void bind_random(nb::module_& m) {
  m.def("random_fill", &fill, nb::arg("out"), nb::arg("key"), nb::arg("stream"),
        nb::arg("law"), nb::arg("a"), nb::arg("b"));
  m.def("random_bernoulli", &bernoulli, nb::arg("out"), nb::arg("key"),
        nb::arg("stream"), nb::arg("p"));
  m.def("random_bernoulli_each", &bernoulli_each, nb::arg("out"),
        nb::arg("key"), nb::arg("stream"), nb::arg("p"));
  m.def("random_integers", &integers, nb::arg("out"), nb::arg("key"),
        nb::arg("stream"), nb::arg("low"), nb::arg("count"));
  m.def("random_permutation", &permutation, nb::arg("out"), nb::arg("key"),
        nb::arg("stream"));
  m.def("random_choice", &choice, nb::arg("out"), nb::arg("key"),
        nb::arg("stream"), nb::arg("weights"), nb::arg("replacement"));
}

}  // namespace assay::python
