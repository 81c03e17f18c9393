// What a golden store says of one case: who computed it, of what, and where
// the tensors are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/conform/outcome.h"
#include "assay/conform/protocol.h"
#include "assay/conform/spec.h"

namespace assay::conform {

// A safetensors file of the store, by the hash of its bytes.
struct ObjectRef {
  std::string hash;  // 32 lower-case hexadecimal digits
  std::int64_t bytes = 0;
  bool operator==(const ObjectRef&) const = default;
};

struct Manifest {
  Case subject;
  std::string spec;  // hash of the spec's text, 32 hexadecimal digits
  int adapter = 0;   // version, by the worker's hello
  std::string implementation, version, device;
  Object environment;
  RunAnswer::Status status = RunAnswer::Status::kOk;
  std::string error, message;  // where it is not kOk
  Object contract;
  ObjectRef inputs;
  std::vector<ObjectRef> outputs;  // one for each rank
  // Whether a second run gave the same bytes; true where none was made.
  bool repeats = true;
  double seconds = 0;
  std::int64_t peak_bytes = 0;
  std::string collected;  // UTC
};

// JSON with the hash of itself, so that a changed byte is noticed.
std::string format_manifest(const Manifest& manifest);
// Throws Error{kRefused} naming `origin`, the field, what was found.
Manifest parse_manifest(std::string_view text, const std::string& origin);

// A manifest without results: what a worker that said `hello` would make of a
// case now.
Manifest manifest_of(const Spec& spec, const Case& c, const Hello& hello);

// Why a golden does not belong to what `now` says, "" where it does. Names the
// first reason: spec, case, adapter, policy, implementation, environment.
// `same_implementation`: it has to be made by the same program on the same
// device; else, for judging another implementation by it, only spec, case,
// adapter and policy count. The policy is what both environments say under
// "policy", an object: how FP8 is spelled, where sums are rounded.
std::string stale_reason(const Manifest& golden, const Manifest& now,
                         bool same_implementation);

// Whether a text is 32 lower-case hexadecimal digits.
bool is_hash(std::string_view text);

}  // namespace assay::conform
