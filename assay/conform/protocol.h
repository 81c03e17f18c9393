// What runner and worker say to each other: one JSON object a line on the
// worker's stdin and stdout, tensors in safetensors files. docs/
// worker-protocol.md is the specification for other languages.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/cases.h"
#include "assay/conform/value.h"

namespace assay::conform {

inline constexpr int kProtocolVersion = 1;

// {"type": "hello", "protocol": 1, "implementation": "assay-reference",
//  "version": "0.1.0", "device": "cpu", "launcher": "mpirun",
//  "modules": {"linear": {"adapter": 1, "api": [...]}}, "environment": {...}}
struct Hello {
  struct Module {
    int adapter = 0;
    bool has_api = false;  // says which names it has; they may be none
    std::vector<std::string> api;
  };
  std::string implementation, version, device;
  // How a case of several ranks starts it: "mpirun" (mpirun -n R COMMAND
  // --ranks R; rank 0 speaks), "self" (COMMAND --ranks R), "" (not at all).
  std::string launcher;
  std::map<std::string, Module> modules;
  Object environment;  // what else decides about bits: versions, ISA, threads
};

// {"type": "run", "id": 7, "module": "linear", "case": "small-3f09a1c2",
//  "parameters": {...}, "steps": 1, "seed": 5, "strided": ["x"],
//  "inputs": "/dir/in.safetensors", "outputs": "/dir/out"}
// `outputs` is a prefix: rank r writes "<outputs>.rank<r>.safetensors".
struct RunRequest {
  std::int64_t id = 0;
  Case subject;
  std::vector<std::string> strided;
  std::string inputs, outputs;
};
std::string output_file(const std::string& outputs, int rank);

// {"type": "result", "id": 7, "status": "ok", "contract": {...},
//  "seconds": 0.01, "peak_bytes": 12345678}
// status "unsupported" or "error": "message" says why, "error" its kind.
struct RunAnswer {
  enum class Status : std::uint8_t { kOk, kUnsupported, kError } status;
  std::int64_t id = 0;
  Object contract;
  double seconds = 0;           // of the computation alone
  std::int64_t peak_bytes = 0;  // resident, of the process so far
  std::string error, message;
};

std::string format_hello(const Hello& hello);  // without the line's end
std::string format_request(const RunRequest& request);
std::string format_answer(const RunAnswer& answer);
std::string hello_request();  // {"type": "hello", "protocol": 1}
std::string bye_request();    // {"type": "bye"}

// Throw Error{kRefused} naming the field, what was found, what was expected.
Hello parse_hello(std::string_view line);
RunAnswer parse_answer(std::string_view line);
RunRequest parse_request(const Value& message);

}  // namespace assay::conform
