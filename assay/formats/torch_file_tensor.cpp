#include "assay/formats/torch_file_tensor.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/bytes.h"
#include "assay/formats/tensor_layout.h"

namespace assay {
namespace {

constexpr std::uint64_t kMaxExpanded = 64 << 20;
constexpr std::uint64_t kMaxExpansion = 16;
constexpr std::size_t kMaxRank = 64;

class Reader {
 public:
  explicit Reader(const TorchArchive& archive) : archive_(archive) {}

  TorchTensor rebuild(const PickleValue& function, const PickleValue& arguments,
                      int wrappers = 0) {
    const TorchGlobal& global = torch_global(function);
    const auto args = pickle().items(arguments);
    switch (global.role) {
      case TorchRole::kRebuildTensor:
        return plain(args, 4, 4);
      case TorchRole::kRebuildTensorV2:
        return plain(args, 6, 6);
      case TorchRole::kRebuildTensorV3:
        return plain(args, 7, 7);
      case TorchRole::kRebuildParameter:
        return unwrap(args, wrappers);
      case TorchRole::kRebuildFromType:
        if (args.size() != 4 || !args[0].is(PickleKind::kGlobal) ||
            args[0].count == 0 || !args[2].is(PickleKind::kTuple)) {
          fail("_rebuild_from_type_v2 with other arguments",
               "(function, class, tuple, state)");
        }
        check_depth(wrappers);
        return rebuild(args[0], args[2], wrappers + 1);
      case TorchRole::kOtherTensor:
        return unsupported("a quantised, sparse, nested or data-free tensor (" +
                           std::string(global.name) +
                           "); save it dense to compare it");
      default:
        fail(std::string(global.name) + " in place of a tensor", "a tensor");
    }
  }

 private:
  struct Storage {
    std::span<const std::byte> bytes;
    TorchGlobal global;
  };

  const Pickle& pickle() const { return *archive_.pickle; }

  [[noreturn]] void fail(std::string_view found,
                         std::string_view expected) const {
    refuse(archive_.zip->file().name + ": data.pkl", archive_.pickle_offset,
           found, expected);
  }

  static TorchTensor unsupported(std::string reason) {
    TorchTensor tensor;
    tensor.unsupported = std::move(reason);
    return tensor;
  }

  void check_depth(int wrappers) const {
    if (wrappers > 3) fail("wrappers nested deeper than 3", "a tensor");
  }

  TorchTensor unwrap(std::span<const PickleValue> args, int wrappers) {
    if (args.empty() || !args[0].is(PickleKind::kCall)) {
      fail("a parameter without tensor", "_rebuild_parameter(tensor, ...)");
    }
    check_depth(wrappers);
    const auto call = pickle().items(args[0]);
    return rebuild(call[0], call[1], wrappers + 1);
  }

  // `needed` arguments, then at `metadata` perhaps a dict.
  TorchTensor plain(std::span<const PickleValue> args, std::size_t needed,
                    std::size_t metadata) {
    if (args.size() < needed || args.size() > metadata + 1) {
      fail("a tensor of " + std::to_string(args.size()) + " arguments",
           std::to_string(needed) + " or " + std::to_string(metadata + 1));
    }
    const Storage storage = read_storage(args[0]);
    TorchTensor tensor;
    tensor.shape = dimensions(args[2], "size");
    tensor.strides = dimensions(args[3], "stride");
    const TorchGlobal& element =
        needed == 7 ? dtype_argument(args[6]) : storage.global;
    if (!element.dtype) {
      tensor.unsupported = "torch type " + std::string(element.name) +
                           " is not one that can be compared";
    } else if (args.size() > metadata) {
      tensor.unsupported = metadata_problem(args[metadata]);
    }
    if (!tensor.unsupported.empty()) return tensor;
    tensor.dtype = *element.dtype;
    tensor.pairs = tensor.dtype == DType::kE2M1;
    place(tensor, storage, integer(args[1], "storage offset"));
    return tensor;
  }

  const TorchGlobal& dtype_argument(const PickleValue& value) const {
    if (!value.is(PickleKind::kGlobal) ||
        torch_global(value).role != TorchRole::kDtype) {
      fail("no dtype in _rebuild_tensor_v3", "torch.<dtype>");
    }
    return torch_global(value);
  }

  // Lazy conjugation and negation change the values the bytes stand for.
  std::string metadata_problem(const PickleValue& value) const {
    if (value.is(PickleKind::kNone)) return "";
    if (!value.is(PickleKind::kDict))
      fail("metadata of another kind", "a dict");
    const auto items = pickle().items(value);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i + 1].is(PickleKind::kBool) && items[i + 1].at == 0) continue;
      const auto key = items[i].is(PickleKind::kString)
                           ? printable(pickle().text(items[i]).substr(0, 40))
                           : "?";
      return "tensor metadata '" + key +
             "' changes what its bytes mean; save x.resolve_conj()"
             ".resolve_neg() or a clone instead";
    }
    return "";
  }

  std::int64_t integer(const PickleValue& value, std::string_view what) const {
    if (!value.is(PickleKind::kInt) || value.integer() < 0) {
      fail(value.is(PickleKind::kInt)
               ? std::to_string(value.integer()) + " as " + std::string(what)
               : "no 64-bit integer as " + std::string(what),
           "an integer of at least 0");
    }
    return value.integer();
  }

  Shape dimensions(PickleValue value, std::string_view what) const {
    if (value.is(PickleKind::kCall)) {  // torch.Size((2, 3))
      const auto call = pickle().items(value);
      const auto inner = pickle().items(call[1]);
      if (torch_global(call[0]).role == TorchRole::kSize && inner.size() == 1) {
        value = inner[0];
      }
    }
    if (!value.is(PickleKind::kTuple) && !value.is(PickleKind::kList)) {
      fail("no tuple as " + std::string(what), "a tuple of integers");
    }
    const auto items = pickle().items(value);
    if (items.size() > kMaxRank) {
      fail(std::to_string(items.size()) + " dimensions", "at most 64");
    }
    Shape dims(items.size());
    for (std::size_t i = 0; i < dims.size(); ++i) {
      dims[i] = integer(items[i], what);
    }
    return dims;
  }

  // ('storage', class, key, location, element count)
  Storage read_storage(const PickleValue& value) const {
    if (!value.is(PickleKind::kPersistent)) fail("no storage", "a storage");
    const auto parts = pickle().items(value);
    if (parts.size() != 5 || !parts[0].is(PickleKind::kString) ||
        pickle().text(parts[0]) != "storage" ||
        !parts[1].is(PickleKind::kGlobal) ||
        !parts[2].is(PickleKind::kString)) {
      fail("another persistent id",
           "('storage', class, key, location, element count)");
    }
    Storage storage;
    storage.global = torch_global(parts[1]);
    storage.bytes = member_bytes(pickle().text(parts[2]));
    check_count(storage, pickle().text(parts[2]),
                static_cast<std::uint64_t>(integer(parts[4], "element count")));
    return storage;
  }

  void check_count(const Storage& storage, std::string_view key,
                   std::uint64_t count) const {
    const TorchGlobal& type = storage.global;
    const bool untyped = type.role == TorchRole::kUntypedStorage;
    if (type.role != TorchRole::kStorage && !untyped) {
      fail(std::string(type.name) + " as storage class",
           "a torch storage class");
    }
    if (!type.dtype && !untyped) return;  // quantised: never read
    const std::uint64_t element = type.dtype ? traits(*type.dtype).bits / 8 : 1;
    if (storage.bytes.size() / element != count) {
      fail("storage '" + printable(key.substr(0, 40)) + "' of " +
               std::to_string(storage.bytes.size()) + " bytes",
           std::to_string(count) + " elements of " + std::to_string(element));
    }
  }

  std::span<const std::byte> member_bytes(std::string_view key) const {
    std::string name = archive_.folder;
    name += "data/";
    name += key;
    const ZipEntry* entry = archive_.zip->find(name);
    if (!entry) {
      fail("no member '" + printable(name.substr(0, 200)) + "'",
           "one for each storage");
    }
    if (entry->method != kZipStored) {
      fail("compressed member '" + printable(name.substr(0, 200)) + "'",
           "a stored one, as torch.save writes");
    }
    return archive_.zip->raw(*entry);
  }

  void place(TorchTensor& tensor, const Storage& storage,
             std::int64_t offset) const {
    const std::uint64_t element =
        tensor.pairs ? 1 : traits(tensor.dtype).bits / 8;
    const std::string where = archive_.zip->file().name + ": data.pkl";
    const std::uint64_t want = payload_bytes(tensor.shape, element, where,
                                             archive_.pickle_offset, kMaxRank);
    if (tensor.strides.size() != tensor.shape.size()) {
      fail(std::to_string(tensor.strides.size()) + " strides",
           std::to_string(tensor.shape.size()));
    }
    const std::uint64_t have = storage.bytes.size() / element;
    const auto first = static_cast<std::uint64_t>(offset);
    const std::uint64_t count =
        want == 0 ? 0 : elements_spanned(tensor.shape, tensor.strides);
    if (first > have || count > have - first) {
      fail("a view of elements " + std::to_string(first) + " to " +
               std::to_string(first) + "+" + std::to_string(count),
           "inside its storage of " + std::to_string(have));
    }
    if (want > std::max(kMaxExpanded, kMaxExpansion * storage.bytes.size())) {
      fail("an expanded view of " + std::to_string(want) + " bytes",
           "at most 16 times its storage of " +
               std::to_string(storage.bytes.size()) + " bytes, or 64 MiB");
    }
    tensor.part = storage.bytes.subspan(first * element, count * element);
    finish_shape(tensor);
  }

  // 1 + sum of (size - 1) * stride; no dimension is zero.
  std::uint64_t elements_spanned(const Shape& shape,
                                 const Shape& strides) const {
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto reach = checked_mul(static_cast<std::uint64_t>(shape[i] - 1),
                                     static_cast<std::uint64_t>(strides[i]));
      const auto sum = reach ? checked_add(last, *reach) : std::nullopt;
      if (!sum || *sum > ~std::uint64_t{0} >> 1) {
        fail("strides " + to_string(strides) + " for shape " + to_string(shape),
             "an extent that fits 63 bits");
      }
      last = *sum;
    }
    return last + 1;
  }

  void finish_shape(TorchTensor& tensor) const {
    TensorView view{DType::kU8, tensor.shape, tensor.strides, nullptr};
    if (view.is_contiguous()) tensor.strides.clear();
    if (!tensor.pairs) return;
    if (tensor.shape.empty()) {
      tensor.unsupported = "a 0-d float4_e2m1fn_x2 holds two values";
    } else {
      tensor.shape.back() *= 2;  // place() has bounded it far below 2^62
    }
  }

  const TorchArchive& archive_;
};

}  // namespace

TorchTensor read_torch_tensor(const TorchArchive& archive,
                              const PickleValue& function,
                              const PickleValue& arguments) {
  return Reader(archive).rebuild(function, arguments);
}

}  // namespace assay
