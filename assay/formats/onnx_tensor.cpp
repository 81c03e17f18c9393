#include "assay/formats/onnx_tensor.h"

#include <bit>
#include <utility>

#include "assay/formats/bytes.h"
#include "assay/formats/onnx_tensor_proto.h"
#include "assay/formats/protobuf_wire.h"
#include "assay/formats/tensor_layout.h"

namespace assay {
namespace {

std::optional<DType> dtype_of(std::int64_t data_type) {
  for (const DTypeTraits& t : kDTypes) {
    if (t.onnx != 0 && t.onnx == data_type) return t.id;
  }
  return std::nullopt;
}

std::string_view type_name(std::int64_t data_type) {
  switch (data_type) {
    case 8:
      return "string";
    case 21:
      return "uint4";
    case 22:
      return "int4";
    case 25:
      return "uint2";
    case 26:
      return "int2";
    case 27:
      return "float6e2m3";
    case 28:
      return "float6e3m2";
    default:
      return "an unknown type";
  }
}

class OnnxTensorSource : public TensorSource {
 public:
  explicit OnnxTensorSource(FileBytes file) : file_(std::move(file)) {
    format_ = "onnx tensor";
    mapping_ = file_.mapping;
    proto_ = parse_onnx_tensor_proto(file_.bytes, file_.name);
    TensorInfo info;
    info.shape = proto_.dims;
    if (const auto dtype = dtype_of(proto_.data_type)) {
      info.dtype = *dtype;
      check_size(info);
    } else {
      info.unsupported = file_.name + ": data_type " +
                         std::to_string(proto_.data_type) + " (" +
                         std::string(type_name(proto_.data_type)) +
                         ") cannot be compared";
    }
    tensors_.push_back(std::move(info));
    file_.check_intact();
  }

  Tensor load(std::size_t index) const override {
    const TensorInfo& info = tensors_.at(index);
    if (!info.unsupported.empty()) {
      throw Error(Code::kUnsupported, info.unsupported);
    }
    if (proto_.raw) {
      return tensor_over(*proto_.raw, file_.owner, info.dtype, info.shape, {});
    }
    Tensor tensor = Tensor::zeros(info.dtype, info.shape);
    decode_onnx_numbers(file_.bytes, file_.name, proto_.typed_field, info.dtype,
                        tensor.mutable_data());
    return tensor;
  }

 private:
  void check_size(const TensorInfo& info) const {
    const auto count = checked_numel(info.shape);
    const auto size = count ? storage_bytes(info.dtype, *count) : std::nullopt;
    if (!size) {
      refuse(file_.name, 0, "dims " + to_string(info.shape),
             "a size below 2^63 bytes");
    }
    const auto bytes = static_cast<std::uint64_t>(*size);
    if (proto_.raw) {
      check_raw(info, bytes);
    } else {
      check_numbers(info, bytes);
    }
  }

  void check_raw(const TensorInfo& info, std::uint64_t bytes) const {
    if (proto_.typed_field != 0) {
      refuse(file_.name, 0,
             "raw_data and field " + std::to_string(proto_.typed_field),
             "data in one field");
    }
    if (proto_.raw->size() != bytes) {
      refuse(file_.name, 0,
             std::to_string(proto_.raw->size()) + " bytes of raw_data",
             std::to_string(bytes) + " for " + described(info));
    }
  }

  void check_numbers(const TensorInfo& info, std::uint64_t bytes) const {
    const std::uint32_t field = onnx_typed_field(info.dtype);
    if (proto_.typed_field != 0 && proto_.typed_field != field) {
      refuse(file_.name, 0,
             "numbers in field " + std::to_string(proto_.typed_field),
             "field " + std::to_string(field) + " for " + described(info));
    }
    const auto bits =
        static_cast<std::uint64_t>(traits(component(info.dtype)).bits);
    const std::uint64_t expected = bytes / ((bits + 7) / 8);
    if (proto_.typed_count != expected) {
      refuse(file_.name, 0, std::to_string(proto_.typed_count) + " numbers",
             std::to_string(expected) + " for " + described(info));
    }
  }

  static std::string described(const TensorInfo& info) {
    return "dims " + to_string(info.shape) + " of " +
           std::string(traits(info.dtype).name);
  }

  FileBytes file_;
  OnnxTensorProto proto_;
};

// Which fields of TensorProto and ModelProto a message could be.
struct Evidence {
  bool tensor = true, model = true;
  bool data_type = false, graph = false;

  void add(const WireField& field) {
    const bool varint = field.type == WireType::kVarint;
    const bool bytes = field.type == WireType::kBytes;
    switch (field.number) {
      case 1:
        model &= varint;
        break;
      case 2:
        tensor &= varint;
        model &= bytes;
        data_type |= varint && field.value > 0 && field.value < 1000;
        break;
      case 7:
        model &= bytes;
        graph |= bytes;
        break;
      case 8:
        tensor &= bytes;
        model &= bytes;
        break;
      default:
        tensor &= field.number <= 16;
        model &= field.number <= 64;
    }
  }
};

}  // namespace

OnnxKind classify_onnx(const FileBytes& file) {
  Evidence evidence;
  WireReader reader(file.bytes, file.name);
  try {
    for (WireField field; reader.next(field);) {
      evidence.add(field);
      if (!evidence.tensor && !evidence.model) return OnnxKind::kNeither;
    }
  } catch (const Error&) {
    return OnnxKind::kNeither;
  }
  if (evidence.tensor && evidence.data_type) return OnnxKind::kTensor;
  if (evidence.model && evidence.graph) return OnnxKind::kModel;
  return OnnxKind::kNeither;
}

std::unique_ptr<TensorSource> open_onnx_tensor(FileBytes file) {
  return std::make_unique<OnnxTensorSource>(std::move(file));
}

}  // namespace assay
