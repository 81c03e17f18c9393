// Where quantisers that round stochastically are in their random numbers: what
// a training run must find again to go on with the same bits.
#pragma once

#include <optional>
#include <string_view>

#include "assay/te/modules/named_tensor.h"
#include "assay/te/recipe/recipe_state.h"

namespace assay::te {

inline constexpr const char* kRandomOffsetForward =
    "_extra_state.random_offset_fwd";
inline constexpr const char* kRandomOffsetBackward =
    "_extra_state.random_offset_bwd";

// i64, one offset for each quantiser of the state that draws, in the order of
// its slots, of a hybrid one the rowwise first; a copy. Absent where none does.
std::optional<Tensor> random_offsets(const RecipeState& state);
// Throws Error{kUsage} naming `module` where the tensor has another shape or
// dtype. A state whose quantisers do not draw takes any; so does every state
// where there is no tensor.
void check_random_offsets(const RecipeState& state, std::string_view module,
                          const std::optional<NamedTensor>& offsets);
// What was checked, back into the quantisers that draw.
void set_random_offsets(RecipeState& state,
                        const std::optional<NamedTensor>& offsets);

}  // namespace assay::te
