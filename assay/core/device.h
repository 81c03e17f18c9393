// Where an operator runs.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

enum class Device : std::uint8_t {
  kCpu,        // the fast kernels of this machine
  kReference,  // the same operators as plain loops in fp64: the oracle
};

constexpr std::string_view device_name(Device device) {
  return device == Device::kCpu ? "cpu" : "reference";
}

}  // namespace assay
