// Why an operator may not compute the same twice.
#pragma once

#include <string>
#include <string_view>

namespace assay {

// One line, "" where nothing is known of the operator. After PyTorch's list of
// operators without a deterministic kernel
// (torch.use_deterministic_algorithms) and its notes on reproducibility.
std::string cause_of_operator(std::string_view api, bool backward);

}  // namespace assay
