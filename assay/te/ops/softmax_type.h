// What a softmax adds to its denominator.
#pragma once

#include <cstdint>

namespace assay::te {

enum class SoftmaxType : std::uint8_t {
  kVanilla,
  kOffByOne,   // one more term e^0
  kLearnable,  // one more term e^offset[head]
};

}  // namespace assay::te
