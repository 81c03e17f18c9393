// assay._core: snapshots of environments, fingerprints of tensors.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>

#include "assay/base/hash.h"
#include "assay/env/environment.h"
#include "assay/env/fingerprint.h"
#include "assay/env/secrets.h"
#include "assay/env/snapshot.h"
#include "assay/env/system_facts.h"
#include "assay/trace/capture_content.h"
#include "bindings.h"
#include "tensor_argument.h"

namespace assay::python {
namespace {

env::TensorPrint print_of(const AnyArray& array, const std::string& dtype,
                          bool rows) {
  const TensorView view = view_of(array, dtype);
  nb::gil_scoped_release release;
  return env::fingerprint(view, rows);
}

// What Python collected, with what the library knows by itself; secrets are
// taken out.
std::string finished(const std::string& collected, bool all_variables) {
  nb::gil_scoped_release release;
  env::Snapshot snapshot = env::parse_snapshot(collected, "snapshot");
  env::collect_environment(all_variables, snapshot[env::Section::kEnvironment]);
  std::error_code ignored;
  env::collect_system(std::filesystem::current_path(ignored),
                      snapshot[env::Section::kSystem]);
  env::collect_drivers(snapshot[env::Section::kDevice]);
  env::hide_secrets(snapshot);
  return env::to_json(snapshot);
}

std::string content_hash_of(const AnyArray& array, const std::string& dtype) {
  Tensor tensor;
  tensor.view = view_of(array, dtype);
  nb::gil_scoped_release release;
  return to_hex(content_hash(contiguous(tensor).view));
}

std::string hash_text(const std::string& text) { return to_hex(hash128(text)); }

}  // namespace

void bind_env(nb::module_& m) {
  nb::class_<env::TensorPrint>(m, "TensorPrint",
                               "A tensor's fingerprint: docs/environment.md.")
      .def_ro("dtype", &env::TensorPrint::dtype)
      .def_ro("shape", &env::TensorPrint::shape)
      .def_ro("hash", &env::TensorPrint::hash)
      .def_ro("forms", &env::TensorPrint::as)
      .def_ro("statistics", &env::TensorPrint::statistics);
  m.def("fingerprint", &print_of, nb::arg("tensor"), nb::arg("dtype") = "",
        nb::arg("rows") = false);
  m.def("content_hash", &content_hash_of, nb::arg("tensor"),
        nb::arg("dtype") = "",
        "128 bits of dtype, shape and bytes, as a capture has them.");
  m.def("finish_snapshot", &finished, nb::arg("collected"),
        nb::arg("all_variables") = false,
        "A snapshot's document, completed and without secrets.");
  m.def("hash_text", &hash_text, nb::arg("text"), "128 bits in hexadecimal.");
}

}  // namespace assay::python
