// What the tests of a run share: traces written line by line, and workers that
// answer what a script says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/conform/value.h"
#include "assay/precheck/run.h"

namespace assay::precheck {

// A tensor of an answer: dtype as safetensors spells it, shape, bytes in hex.
struct Bytes {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string hex;
};

template <typename T>
Bytes bytes_of(const std::string& dtype, std::vector<std::int64_t> shape,
               const std::vector<T>& values) {
  Bytes bytes{dtype, std::move(shape), ""};
  const auto* data = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i)
    bytes.hex += fmt::format("{:02x}", data[i]);
  return bytes;
}

inline Bytes f32(std::vector<std::int64_t> shape,
                 const std::vector<float>& values) {
  return bytes_of("F32", std::move(shape), values);
}
inline Bytes f64(std::vector<std::int64_t> shape,
                 const std::vector<double>& values) {
  return bytes_of("F64", std::move(shape), values);
}

using Tensors = std::map<std::string, Bytes>;

inline conform::Value answer_of(const Tensors& tensors,
                                const conform::Object& contract = {}) {
  conform::Object entries;
  for (const auto& [name, bytes] : tensors)
    entries[name] = conform::List{
        bytes.dtype, conform::List(bytes.shape.begin(), bytes.shape.end()),
        bytes.hex};
  return conform::Object{{"tensors", entries}, {"contract", contract}};
}

class PrecheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("precheck-{}-{}", ::getpid(), test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "trace");
    trace_ = R"({"assay_trace":1,"task":"statistics","step":0,"rank":0})"
             "\n";
    trace_ += R"({"stack":["model.py:7 in forward"]})"
              "\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // An operator's line: "Torch.exp.0.forward".
  void op(const std::string& name) {
    const std::size_t dot = name.find('.');
    const std::size_t last = name.rfind('.');
    const std::size_t call = name.rfind('.', last - 1);
    trace_ += fmt::format(
        R"({{"op":"{}","api":"{}","prefix":"{}","call":{},"direction":"{}")"
        R"(,"stack":0}})"
        "\n",
        name, name.substr(dot + 1, call - dot - 1), name.substr(0, dot),
        name.substr(call + 1, last - call - 1), name.substr(last + 1));
    ++ops_;
  }

  // A leaf of the last operator. `more`: further members.
  void leaf(const std::string& role, const std::string& name,
            const std::string& more) {
    trace_ += fmt::format(R"({{"of":{},"role":"{}","leaf":"{}",{}}})"
                          "\n",
                          ops_ - 1, role, name, more);
  }
  void tensor(const std::string& role, const std::string& name,
              const std::string& dtype, const std::string& shape,
              bool grad = false) {
    leaf(role, name,
         fmt::format(R"("type":"torch.Tensor","dtype":"{}","shape":{},)"
                     R"("requires_grad":{},"max":2,"min":0,"mean":1,)"
                     R"("norm":2)",
                     dtype, shape, grad));
  }

  // A call of one argument and one result, with what both workers answer.
  void call(const std::string& name, const Bytes& device, const Bytes& golden,
            const std::string& dtype, const std::string& shape) {
    op(name + ".forward");
    tensor("input", "input.0", "float32", "[2]");
    tensor("output", "output.0", dtype, shape);
    const std::string api = name.substr(0, name.rfind('.'));
    device_[api] = answer_of({{"output.0", device}});
    golden_[api] = answer_of({{"output.0", golden}});
  }

  RunResult run() {
    std::ofstream(folder_ / "trace/trace.jsonl") << trace_ << R"({"end":true})"
                                                 << "\n";
    std::ofstream(folder_ / "script.json") << conform::to_json(conform::Object{
        {"device", device_}, {"golden", golden_}, {"given", given_}});
    options_.device = worker("device");
    options_.golden = worker("golden");
    if (!options_.standard) options_.standard = Standard::load("assay");
    options_.out = folder_ / "out";
    options_.jobs = 1;
    options_.command = "assay precheck run trace";
    const Plan plan = make_plan((folder_ / "trace").string(), chosen_);
    return precheck::run(plan, options_);
  }

  conform::WorkerCommand worker(const char* side) const {
    return conform::parse_worker_command(
        fmt::format("python3 -I -S " ASSAY_SOURCE_DIR
                    "/tests/precheck/workers/scripted.py {} {} {}",
                    (folder_ / "script.json").string(), side,
                    (folder_ / "count").string()));
  }

  std::string asked() const {
    std::ifstream file(folder_ / "count");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static const Row& row(const RunResult& result, const std::string& name) {
    for (const Row& one : result.comparison.rows)
      if (one.name() == name) return one;
    ADD_FAILURE() << "no row " << name;
    return result.comparison.rows.front();
  }
  static std::string criterion(const Row& row) {
    const Reason* reason = deciding_reason(row);
    return reason ? reason->criterion : "";
  }

  std::filesystem::path folder_;
  std::string trace_;
  int ops_ = 0;
  conform::Object device_, golden_, given_;
  RunOptions options_;
  PlanOptions chosen_;
};

}  // namespace assay::precheck
