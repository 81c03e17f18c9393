// assay._core: the writer of traces, as the hooks of Python use it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "assay/base/error.h"
#include "assay/trace/capture_names.h"
#include "assay/trace/capture_writer.h"
#include "bindings.h"
#include "tensor_argument.h"

namespace assay::python {
namespace {

template <typename Enum, std::size_t n>
Enum word(const std::array<std::string_view, n>& words, const std::string& text,
          const char* what) {
  const auto value = value_of<Enum>(words, text);
  if (!value) throw Error(Code::kUsage, std::string(what) + ": '" + text + "'");
  return *value;
}

CaptureMode mode_named(const std::string& name) {
  for (const CaptureMode mode :
       {CaptureMode::kTensor, CaptureMode::kStatistics, CaptureMode::kHash})
    if (to_string(mode) == name) return mode;
  throw Error(Code::kUsage,
              "mode: '" + name + "', expected tensor, statistics or hash");
}

struct Group {
  std::string id;
  std::vector<std::int64_t> ranks;
  std::optional<std::int64_t> peer;
};

std::uint32_t begin_op(CaptureWriter& writer, std::string name, std::string api,
                       std::string prefix, std::int64_t call,
                       const std::string& direction, std::int32_t parent,
                       std::int32_t stack, bool recompute,
                       const std::string& autocast,
                       const std::optional<Group>& collective) {
  Op op;
  op.name = std::move(name);
  op.api = std::move(api);
  op.prefix = std::move(prefix);
  op.call_index = call;
  op.direction = word<Direction>(kDirectionWords, direction, "direction");
  op.parent = parent;
  op.stack = stack;
  op.recompute = recompute;
  if (collective) {
    op.collective = std::make_unique<Collective>();
    op.collective->group_id = collective->id;
    op.collective->group_ranks = collective->ranks;
    op.collective->peer = collective->peer;
  }
  return writer.op(op, autocast);
}

CaptureLeaf leaf_of(std::uint32_t op, const std::string& role, std::string leaf,
                    std::string type) {
  return {op, word<Role>(kRoleWords, role, "role"), std::move(leaf),
          std::move(type)};
}

// Keeps the array's memory; the last owner lets go under the GIL, which
// nb::ndarray takes itself.
Tensor kept(const AnyArray& array, const TensorView& view) {
  Tensor tensor;
  tensor.view = view;
  tensor.owner = std::make_shared<const AnyArray>(array);
  return tensor;
}

}  // namespace

void bind_capture(nb::module_& m) {
  nb::class_<Group>(m, "Group", "Who takes part in a collective.")
      .def(
          "__init__",
          [](Group* self, std::string id, std::vector<std::int64_t> ranks,
             std::optional<std::int64_t> peer) {
            new (self) Group{std::move(id), std::move(ranks), peer};
          },
          nb::arg("id"), nb::arg("ranks"), nb::arg("peer") = nb::none());

  nb::class_<CaptureCounts>(m, "CaptureCounts", "What a writer has done.")
      .def(nb::init<>())
      .def_ro("ops", &CaptureCounts::ops)
      .def_ro("records", &CaptureCounts::records)
      .def_ro("tensor_bytes", &CaptureCounts::tensor_bytes)
      .def_ro("stored_bytes", &CaptureCounts::stored_bytes)
      .def_ro("remembered", &CaptureCounts::remembered)
      .def_ro("waited", &CaptureCounts::waited);

  nb::class_<CaptureWriter>(m, "CaptureWriter", "Writes one rank of one step.")
      .def(
          "__init__",
          [](CaptureWriter* self, const std::string& directory,
             const std::string& mode, std::int64_t step, std::int64_t rank,
             std::int64_t world_size, const std::string& framework_version,
             const std::string& level, const std::string& device,
             std::int64_t queue_bytes) {
            CaptureOptions options;
            options.mode = mode_named(mode);
            options.step = step;
            options.rank = rank;
            options.world_size = world_size;
            options.framework = "pytorch";
            options.framework_version = framework_version;
            options.level = level;
            options.device = device;
            options.queue_bytes = queue_bytes;
            new (self) CaptureWriter(directory, options);
          },
          nb::arg("directory"), nb::arg("mode"), nb::arg("step") = 0,
          nb::arg("rank") = 0, nb::arg("world_size") = 1,
          nb::arg("framework_version") = "", nb::arg("level") = "",
          nb::arg("device") = "",
          nb::arg("queue_bytes") = std::int64_t{256} << 20)
      .def("stack", &CaptureWriter::stack, nb::arg("frames"))
      .def("op", &begin_op, nb::arg("name"), nb::arg("api"),
           nb::arg("prefix") = "", nb::arg("call") = 0,
           nb::arg("direction") = "forward", nb::arg("parent") = -1,
           nb::arg("stack") = -1, nb::arg("recompute") = false,
           nb::arg("autocast") = "", nb::arg("collective") = nb::none())
      .def(
          "tensor",
          [](CaptureWriter& self, std::uint32_t op, const std::string& role,
             std::string leaf, const AnyArray& array, std::string type,
             bool requires_grad, const std::string& dtype, bool owned,
             std::uint64_t number) -> int {
            const TensorView view = view_of(array, dtype);
            const CaptureLeaf place =
                leaf_of(op, role, std::move(leaf), std::move(type));
            if (owned) {
              Tensor tensor = kept(array, view);
              // The thread takes the GIL to let go of what it has stored,
              // and makes room by it.
              nb::gil_scoped_release release;
              self.owned_tensor(place, std::move(tensor), requires_grad);
              return static_cast<int>(Finiteness::kUnknown);
            }
            nb::gil_scoped_release release;
            return static_cast<int>(
                self.tensor(place, view, requires_grad, number));
          },
          nb::arg("op"), nb::arg("role"), nb::arg("leaf"), nb::arg("array"),
          nb::arg("type") = "torch.Tensor", nb::arg("requires_grad") = false,
          nb::arg("dtype") = "", nb::arg("owned") = false,
          nb::arg("number") = 0,
          "0: finite; 1: no NaN and no +inf, but -inf; 2: not finite; -1: not "
          "known here.")
      .def("forget", &CaptureWriter::forget)
      .def(
          "value",
          [](CaptureWriter& self, std::uint32_t op, const std::string& role,
             std::string leaf, std::string type, const std::string& text) {
            self.value(leaf_of(op, role, std::move(leaf), std::move(type)),
                       text);
          },
          nb::arg("op"), nb::arg("role"), nb::arg("leaf"), nb::arg("type"),
          nb::arg("text"))
      .def(
          "opaque",
          [](CaptureWriter& self, std::uint32_t op, const std::string& role,
             std::string leaf, std::string type, const std::string& why) {
            self.opaque(leaf_of(op, role, std::move(leaf), std::move(type)),
                        why);
          },
          nb::arg("op"), nb::arg("role"), nb::arg("leaf"), nb::arg("type"),
          nb::arg("why"))
      .def(
          "unreadable",
          [](CaptureWriter& self, std::uint32_t op, const std::string& role,
             std::string leaf, const std::string& dtype,
             std::vector<std::int64_t> shape, const std::string& why,
             std::string type) {
            SideFacts facts;
            facts.dtype = parse_dtype(dtype);
            facts.dtype_text = dtype;
            facts.shape = std::move(shape);
            self.unreadable(leaf_of(op, role, std::move(leaf), std::move(type)),
                            facts, why);
          },
          nb::arg("op"), nb::arg("role"), nb::arg("leaf"), nb::arg("dtype"),
          nb::arg("shape"), nb::arg("why"), nb::arg("type") = "torch.Tensor")
      .def("flush", &CaptureWriter::flush,
           nb::call_guard<nb::gil_scoped_release>())
      .def("close", &CaptureWriter::close,
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("problem", &CaptureWriter::problem)
      .def_prop_ro("counts", &CaptureWriter::counts);
}

}  // namespace assay::python
