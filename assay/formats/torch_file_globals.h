// The names a torch.save pickle may mention, and what each means to us.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "assay/core/dtype.h"
#include "assay/formats/pickle.h"

namespace assay {

enum class TorchRole {
  kRebuildTensor,     // (storage, offset, size, stride)
  kRebuildTensorV2,   // + requires_grad, hooks [, metadata]
  kRebuildTensorV3,   // + requires_grad, hooks, dtype [, metadata]
  kRebuildParameter,  // (tensor, requires_grad, hooks [, state])
  kRebuildFromType,   // (function, class, its arguments, state)
  kOtherTensor,       // quantised, sparse, nested, without data
  kOrderedDict,
  kSize,
  kComplex,
  kInert,  // a class, layout, device or quantisation scheme: carries no data
  kStorage,
  kUntypedStorage,
  kDtype,
};

struct TorchGlobal {
  TorchRole role = TorchRole::kInert;
  std::string_view name;       // as torch spells it
  std::optional<DType> dtype;  // kStorage, kDtype; nullopt: not one of ours
};

// Table for parse_pickle; the ids are for torch_global().
std::span<const PickleGlobal> torch_allowed_globals();
const TorchGlobal& torch_global(const PickleValue& value);  // a kGlobal

}  // namespace assay
