// What a training ran with, as one file keeps it: switches, hyperparameters,
// variables, versions, devices, fingerprints of data and weights, random calls.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay::env {

inline constexpr std::string_view kFormat = "assay-env";
inline constexpr int kVersion = 1;

enum class Section : std::uint8_t {
  kSwitches,         // of torch and its backends, as the process had them
  kHyperparameters,  // of scripts, configuration files, optimizers
  kEnvironment,      // environment variables
  kLibraries,        // installed packages and their versions
  kDevice,           // accelerators, drivers, toolkits
  kData,             // fingerprints of the first batches
  kWeights,          // fingerprints of parameters and buffers
  kRandom,           // states of generators, and the calls that drew
  kSystem,           // host, interpreter, source tree
};
inline constexpr std::array<std::string_view, 9> kSectionNames = {
    "switches", "hyperparameters", "environment", "libraries", "device",
    "data",     "weights",         "random",      "system"};

std::string_view to_string(Section section);
// Throws Error{kUsage} naming the sections.
Section section_named(std::string_view name);

enum class Kind : std::uint8_t {
  kText,     // `text` as it is
  kNumber,   // `text` as JSON writes it
  kBool,     // "true" or "false"
  kNull,     // "null"
  kFlag,     // an option of a command line without a value: "given"
  kUnknown,  // known only where it runs; `text` is what was written: "$(nproc)"
};

struct Value {
  Kind kind = Kind::kText;
  std::string text;
  std::string from;  // "run.sh:12", "" where that goes without saying
  bool operator==(const Value&) const = default;
};

// A tensor without its elements. Hashes are hexadecimal (assay/env/
// fingerprint.h says of what), "" where they could not be taken.
struct TensorPrint {
  std::string name;
  std::string role;  // "parameter", "buffer", "batch"
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string hash;
  std::map<std::string, std::string> as;          // other forms, by their name
  std::map<std::string, std::string> statistics;  // numbers as text
  std::string placement;   // how it is sharded, "" for a whole tensor
  std::string unreadable;  // why there is no hash
};

struct Batch {
  std::vector<TensorPrint> leaves;
};

// One call that drew random numbers.
struct Draw {
  std::string function;   // "torch.randn"
  std::string arguments;  // shapes, dtypes and plain values
  std::string result;     // hash of what it gave, "" where it was not taken
  std::int64_t stack = -1;
};

// Of variables: which of them a snapshot has. Only what it would have can be
// known not to be set.
enum class Scope : std::uint8_t {
  kScript,  // those that a script exports
  kListed,  // those of a running environment that may matter: is_listed()
  kAll,
};
inline constexpr std::array<std::string_view, 3> kScopeNames = {
    "script", "listed", "all"};

struct SectionFacts {
  bool collected = false;
  Scope scope = Scope::kScript;  // of environment
  // One line each: what is not here, and why.
  std::vector<std::string> missing;
  std::map<std::string, Value> values;
};

struct Snapshot {
  std::string path;   // of the file
  std::string taken;  // ISO 8601, UTC
  std::array<SectionFacts, kSectionNames.size()> sections;
  std::vector<TensorPrint> weights;
  std::vector<Batch> batches;
  std::vector<Draw> draws;                       // the first ones
  std::int64_t draw_count = 0;                   // all of them
  std::string draw_hash;                         // of all, in their order
  std::vector<std::vector<std::string>> stacks;  // innermost frame first

  SectionFacts& operator[](Section section) {
    return sections[static_cast<std::size_t>(section)];
  }
  const SectionFacts& operator[](Section section) const {
    return sections[static_cast<std::size_t>(section)];
  }
};

// Files of at most 1 GiB. Throws Error{kUnreadable} for a file that is absent
// or ends too early, Error{kRefused} for one that is no snapshot of this
// version, naming the place.
Snapshot read_snapshot(const std::filesystem::path& path);
Snapshot parse_snapshot(std::string_view text, const std::string& source);

// One document, keys sorted, a value a line, so that diff shows it.
std::string to_json(const Snapshot& snapshot);

// Adds what `more` has collected: its values win where both have one. Lists
// (weights, batches, draws) are taken over where `into` has none.
void merge(Snapshot& into, const Snapshot& more);

}  // namespace assay::env
