#include "assay/compare/determinism/causes.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace assay {
namespace {

constexpr std::string_view kAdds =
    "it adds into one element from many places, on a device in no fixed "
    "order; --deterministic takes an ordered kernel, or says there is none";
constexpr std::string_view kConvolution =
    "a convolution library may choose another algorithm each time; "
    "--deterministic fixes it";
constexpr std::string_view kProduct =
    "a library's matrix product may split its sums differently with several "
    "streams; --deterministic sets CUBLAS_WORKSPACE_CONFIG";
constexpr std::string_view kAttention =
    "a fused attention may add its gradients in no fixed order";

struct Known {
  std::string_view part;  // of the API's name in lower case
  std::string_view cause;
  bool backward_alone = false;
};

// The first that fits.
constexpr std::array<Known, 29> kKnown = {{
    {"attention", kAttention, true},
    {"index_add", kAdds},
    {"index_put", kAdds},
    {"index_copy", kAdds},
    {"index_reduce", kAdds},
    {"scatter", kAdds},
    {"put_", kAdds},
    {"bincount", kAdds},
    {"histc", kAdds},
    {"cumsum", kAdds},
    {"getitem", kAdds, true},
    {"gather", kAdds, true},
    {"index_select", kAdds, true},
    {"take", kAdds, true},
    {"repeat_interleave", kAdds, true},
    {"embedding", kAdds, true},
    {"pad", kAdds, true},
    {"interpolate", kAdds, true},
    {"upsample", kAdds, true},
    {"grid_sample", kAdds, true},
    {"pool", kAdds, true},
    {"ctc_loss", kAdds, true},
    {"nll_loss", kAdds},
    {"conv", kConvolution},
    {"linear", kProduct},
    {"matmul", kProduct},
    {"bmm", kProduct},
    {"addmm", kProduct},
    {"einsum", kProduct},
}};

}  // namespace

std::string cause_of_operator(std::string_view api, bool backward) {
  std::string lower(api);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  for (const Known& known : kKnown) {
    if (known.backward_alone && !backward) continue;
    if (lower.find(known.part) != std::string::npos)
      return std::string(known.cause);
  }
  return "";
}

}  // namespace assay
