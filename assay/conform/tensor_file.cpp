#include "assay/conform/tensor_file.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/formats/safetensors.h"
#include "assay/formats/safetensors_writer.h"

namespace assay::conform {

void write_tensors(const TensorMap& tensors,
                   const std::filesystem::path& path) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors)
    infos.push_back({name, tensor.dtype(), tensor.shape(), {}});
  SafetensorsWriter writer(path, std::move(infos));
  for (const auto& [name, tensor] : tensors) writer.write(tensor.view);
  writer.commit();
}

namespace {

TensorMap load_all(const TensorSource& source) {
  TensorMap tensors;
  const std::vector<TensorInfo>& infos = source.tensors();
  for (std::size_t i = 0; i < infos.size(); ++i)
    tensors[infos[i].name] = source.load(i);
  source.check_intact();
  return tensors;
}

}  // namespace

TensorMap read_tensors(const std::filesystem::path& path) {
  const auto source = open_tensors(path);
  if (source->format() != "safetensors")
    throw Error(Code::kRefused,
                fmt::format("{}: {}, expected safetensors",
                            printable(path.string()), source->format()));
  return load_all(*source);
}

TensorMap read_tensors(FileBytes file) {
  return load_all(*open_safetensors(std::move(file)));
}

Tensor strided_view(const Tensor& tensor) {
  const int bits = traits(tensor.dtype()).bits;
  const std::size_t rank = tensor.shape().size();
  if (tensor.numel() < 2 || bits < 8 || rank == 0) return tensor;
  const Tensor source = contiguous(tensor);
  const auto item = static_cast<std::size_t>(bits / 8);
  const std::byte* from = source.view.data;
  const auto count = static_cast<std::size_t>(source.numel());
  if (rank == 1) {
    Tensor wide =
        Tensor::empty(tensor.dtype(), {2 * source.numel()}, tensor.device);
    std::byte* to = wide.mutable_data();
    std::memset(to, 0xff, 2 * count * item);
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(to + 2 * i * item, from + i * item, item);
    wide.view.shape = tensor.shape();
    wide.view.strides = {2};
    return wide;
  }
  const auto rows = static_cast<std::size_t>(tensor.shape()[rank - 2]);
  const auto columns = static_cast<std::size_t>(tensor.shape()[rank - 1]);
  Shape turned = tensor.shape();
  std::swap(turned[rank - 2], turned[rank - 1]);
  Tensor result = Tensor::empty(tensor.dtype(), turned, tensor.device);
  std::byte* to = result.mutable_data();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t matrix = i / (rows * columns);
    const std::size_t row = i / columns % rows, column = i % columns;
    const std::size_t place = (matrix * columns + column) * rows + row;
    std::memcpy(to + place * item, from + i * item, item);
  }
  Shape strides(rank);
  std::int64_t step = 1;
  for (std::size_t d = rank; d-- > 0; step *= turned[d]) strides[d] = step;
  std::swap(strides[rank - 2], strides[rank - 1]);
  result.view.shape = tensor.shape();
  result.view.strides = std::move(strides);
  return result;
}

}  // namespace assay::conform
