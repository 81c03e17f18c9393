// Our capture format: what is written comes back, however the run ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "assay/base/error.h"
#include "assay/formats/tensor_source.h"
#include "assay/numerics/element.h"
#include "assay/trace/capture_reader.h"
#include "assay/trace/capture_shard.h"
#include "assay/trace/capture_writer.h"
#include "tests/trace/temp_dir.h"

namespace assay {
namespace {

using testing::HasSubstr;

Tensor filled(DType dtype, Shape shape, const std::vector<double>& values) {
  Tensor t = Tensor::zeros(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], t.mutable_data(),
                      static_cast<std::int64_t>(i));
  return t;
}

Op linear(std::int64_t call = 0) {
  Op op;
  op.name = "Functional.linear." + std::to_string(call) + ".forward";
  op.api = "linear";
  op.prefix = "Functional";
  op.call_index = call;
  op.direction = Direction::kForward;
  return op;
}

CaptureLeaf leaf(std::uint32_t op, Role role, std::string name) {
  return {op, role, std::move(name), "torch.Tensor"};
}

CaptureOptions options(CaptureMode mode = CaptureMode::kTensor) {
  CaptureOptions o;
  o.mode = mode;
  o.framework = "pytorch";
  o.level = "mix";
  return o;
}

Trace read(const std::filesystem::path& path) {
  Trace trace;
  read_capture(path, trace);
  return trace;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool same(const Tensor& a, const Tensor& b) {
  const auto x = a.view.bytes(), y = b.view.bytes();
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(x.begin(), x.end(), y.begin(), y.end());
}

TEST(Capture, RecomputedCallsAreTiedToTheirFirstRun) {
  const TempDir dir;
  const Tensor x = filled(DType::kF32, {2}, {1, 2});
  const Tensor y = filled(DType::kF32, {2}, {3, 4});
  {
    CaptureWriter writer(dir.path() / "t", options());
    const auto call = [&](std::int64_t number, const Tensor& input,
                          bool again) {
      Op op = linear(number);
      op.recompute = again;
      writer.tensor(leaf(writer.op(op), Role::kInput, "input.0"), input.view,
                    false);
    };
    call(0, x, false);
    call(1, y, false);
    call(2, y, true);  // the last region comes first
    call(3, x, true);
    writer.close();
  }
  const Trace t = read(dir.path() / "t");
  ASSERT_EQ(t.ops.size(), 4u);
  EXPECT_TRUE(t.ops[2].recompute);
  EXPECT_EQ(t.ops[2].name, "Functional.linear.1.forward.recompute");
  EXPECT_EQ(t.ops[3].name, "Functional.linear.0.forward.recompute");
}

// A number stands for one tensor that nobody wrote to; a sample of the bytes
// guards it.
TEST(Capture, ATensorThatIsShownAgainIsNotReadAgain) {
  const TempDir dir;
  Tensor x = Tensor::zeros(DType::kF32, {64, 1024});
  CaptureCounts counts;
  {
    CaptureWriter writer(dir.path() / "t", options());
    const std::uint32_t op = writer.op(linear());
    const auto show = [&](const char* name, const Tensor& tensor) {
      writer.tensor(leaf(op, Role::kInput, name), tensor.view, false, 1);
    };
    show("input.0", x);
    show("input.1", x);
    for (std::int64_t i = 0; i < 64 * 1024; ++i)
      store_from_double(DType::kF32, 1, x.mutable_data(), i);
    show("input.2", x);  // written to, whatever the caller believes
    show("input.3", Tensor::zeros(DType::kF32, {1024, 64}));
    writer.forget();
    show("input.4", x);
    writer.close();
    counts = writer.counts();
  }
  EXPECT_EQ(counts.remembered, 1);
  const Trace t = read(dir.path() / "t");
  EXPECT_EQ(t.records.at(1).stats.max, 0);
  EXPECT_EQ(t.records.at(1).digest, t.records.at(0).digest);
  EXPECT_EQ(t.records.at(2).stats.max, 1);
  EXPECT_EQ(t.records.at(4).stats.max, 1);
  EXPECT_TRUE(same(t.loader->load(t.records.at(2)), x));
}

TEST(Capture, AnOwnedTensorIsTheWritersAlone) {
  const TempDir dir;
  for (const CaptureMode mode :
       {CaptureMode::kTensor, CaptureMode::kStatistics, CaptureMode::kHash}) {
    const auto path = dir.path() / std::string(to_string(mode));
    {
      CaptureWriter writer(path, options(mode));
      const std::uint32_t op = writer.op(linear());
      writer.owned_tensor(leaf(op, Role::kInput, "input.0"),
                          filled(DType::kF32, {2}, {1, -2}), true);
      writer.tensor(leaf(op, Role::kOutput, "output.0"),
                    filled(DType::kF32, {2}, {1, -2}).view, false);
      writer.close();
    }
    const Trace t = read(path);
    EXPECT_EQ(t.records.at(0).digest, t.records.at(1).digest);
    EXPECT_EQ(t.records.at(0).stats.min, t.records.at(1).stats.min);
    EXPECT_EQ(t.records.at(0).facts.requires_grad, true);
    if (mode == CaptureMode::kTensor) {
      EXPECT_TRUE(
          same(t.loader->load(t.records[0]), t.loader->load(t.records[1])));
    }
  }
}

TEST(Capture, ComesBackAsItWasWritten) {
  const TempDir dir;
  const Tensor x = filled(DType::kF32, {2, 2}, {1, -2, 0.5, 4});
  {
    CaptureWriter writer(dir.path() / "t", options());
    Op module;
    module.name = "Module.mlp.Linear.forward.0";
    module.api = "mlp.Linear";
    module.prefix = "Module";
    module.direction = Direction::kForward;
    module.stack = writer.stack({"model.py:4 in forward", "run.py:1"});
    EXPECT_EQ(writer.stack({"model.py:4 in forward", "run.py:1"}), 0);
    const std::uint32_t outer = writer.op(module, "bfloat16");
    Op inner = linear(3);
    inner.parent = static_cast<std::int32_t>(outer);
    inner.collective = std::make_unique<Collective>();
    inner.collective->group_id = "tp";
    inner.collective->group_ranks = {0, 3};
    inner.collective->peer = 3;
    const std::uint32_t op = writer.op(inner);
    writer.tensor(leaf(op, Role::kInput, "input.0"), x.view, true);
    writer.value({op, Role::kInput, "input.1", "int"}, "3");
    writer.tensor(leaf(outer, Role::kOutput, "output.0"), x.view, false);
    writer.unreadable(leaf(op, Role::kOutput, "output.0"),
                      {DType::kBF16, "", {7}, {}}, "a meta tensor");
    writer.close();
    EXPECT_EQ(writer.counts().records, 4);
    EXPECT_EQ(writer.counts().tensor_bytes, 32);
    EXPECT_EQ(writer.counts().stored_bytes, 16);  // one tensor, twice
  }
  const Trace t = read(dir.path() / "t");
  EXPECT_TRUE(t.warnings.empty());
  EXPECT_EQ(t.framework, "pytorch");
  EXPECT_EQ(t.task, "tensor");
  EXPECT_EQ(t.level, "mix");
  ASSERT_EQ(t.ops.size(), 2u);
  EXPECT_EQ(t.ops[0].name, "Module.mlp.Linear.forward.0");
  EXPECT_EQ(t.ops[0].record_count, 1u);
  EXPECT_EQ(t.ops[1].parent, 0);
  EXPECT_EQ(t.ops[1].call_index, 3);
  ASSERT_TRUE(t.ops[1].collective);
  EXPECT_EQ(t.ops[1].collective->group_ranks,
            (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(t.ops[1].collective->peer, 3);
  EXPECT_EQ(t.stacks.at(0).at(0), "model.py:4 in forward");
  ASSERT_EQ(t.records.size(), 4u);
  // Grouped by operator: the module's output first.
  EXPECT_EQ(t.name(t.records[0]), "Module.mlp.Linear.forward.0.output.0");
  EXPECT_EQ(t.records[0].role, Role::kOutput);
  const Record& in = t.records[1];
  EXPECT_EQ(t.name(in), "Functional.linear.3.forward.input.0");
  EXPECT_EQ(in.facts.dtype, DType::kF32);
  EXPECT_EQ(in.facts.requires_grad, true);
  EXPECT_EQ(in.stats.max, 4);
  EXPECT_EQ(in.stats.min, -2);
  EXPECT_EQ(in.stats.mean, 0.875);
  EXPECT_DOUBLE_EQ(in.stats.norm.value(), std::sqrt(21.25));
  EXPECT_EQ(in.digest.size(), 32u);
  EXPECT_TRUE(same(t.loader->load(in), x));
  EXPECT_EQ(t.records[2].value, "3");
  EXPECT_FALSE(t.records[2].is_tensor);
  EXPECT_EQ(t.records[3].unreadable, "a meta tensor");
  EXPECT_EQ(t.records[3].facts.shape, Shape{7});
}

TEST(Capture, KeepsEveryDTypeAndAnyStrides) {
  const TempDir dir;
  std::vector<Tensor> given;
  for (const DTypeTraits& dtype : kDTypes)
    given.push_back(filled(dtype.id, {3}, {1, 0, 2}));
  given.push_back(Tensor::zeros(DType::kF32, {0, 4}));
  given.push_back(filled(DType::kBF16, {}, {2.5}));
  Tensor turned = filled(DType::kF32, {2, 3}, {0, 1, 2, 3, 4, 5});
  turned.view.shape = {3, 2};
  turned.view.strides = {1, 3};
  {
    CaptureWriter writer(dir.path() / "t", options());
    const auto op = writer.op(linear());
    for (std::size_t i = 0; i < given.size(); ++i)
      writer.tensor(leaf(op, Role::kInput, "input." + std::to_string(i)),
                    given[i].view, false);
    writer.tensor(leaf(op, Role::kOutput, "output"), turned.view, false);
    writer.close();
  }
  const Trace t = read(dir.path() / "t");
  for (std::size_t i = 0; i < given.size(); ++i)
    EXPECT_TRUE(same(t.loader->load(t.records[i]), given[i])) << i;
  const Tensor out = t.loader->load(t.records.back());
  EXPECT_EQ(out.shape(), (Shape{3, 2}));
  const float expected[] = {0, 3, 1, 4, 2, 5};  // F67
  EXPECT_EQ(std::memcmp(out.view.data, expected, sizeof expected), 0);
}

// What other tools see once the shard is closed.
TEST(Capture, ShardsAreSafetensors) {
  const TempDir dir;
  CaptureOptions small = options();
  small.shard_bytes = 1000;
  {
    CaptureWriter writer(dir.path() / "t", small);
    const auto op = writer.op(linear());
    for (int i = 0; i < 4; ++i) {
      const Tensor x = filled(DType::kF64, {100}, {static_cast<double>(i)});
      writer.tensor(leaf(op, Role::kInput, "input." + std::to_string(i)),
                    x.view, false);
    }
    writer.close();
  }
  // Two of 800 bytes pass the limit of 1000.
  for (const std::int64_t shard : {0, 1}) {
    const auto source = open_tensors(dir.path() / "t" / shard_name(shard));
    EXPECT_EQ(source->format(), "safetensors");
    EXPECT_EQ(source->tensors().size(), 2u);
    EXPECT_EQ(source->tensors()[0].shape, Shape{100});
  }
  EXPECT_FALSE(std::filesystem::exists(dir.path() / "t" / shard_name(2)));
}

TEST(Capture, CopiesBeforeTheTensorChanges) {
  const TempDir dir;
  {
    CaptureWriter writer(dir.path() / "t", options());
    const auto op = writer.op(linear());
    Tensor x = Tensor::zeros(DType::kF32, {1 << 16});
    for (int i = 0; i < 20; ++i) {
      x.mutable_data<float>()[0] = static_cast<float>(i);
      writer.tensor(leaf(op, Role::kInput, "input." + std::to_string(i)),
                    x.view, false);
    }
    writer.close();
  }
  const Trace t = read(dir.path() / "t");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(
        t.loader->load(t.records[static_cast<std::size_t>(i)]).data<float>()[0],
        static_cast<float>(i));
}

TEST(Capture, TheQueueIsBounded) {
  const TempDir dir;
  CaptureOptions narrow = options();
  narrow.queue_bytes = 1 << 16;
  CaptureWriter writer(dir.path() / "t", narrow);
  const auto op = writer.op(linear());
  for (int i = 0; i < 64; ++i) {
    const Tensor x = filled(DType::kF32, {1 << 15}, {static_cast<double>(i)});
    writer.tensor(leaf(op, Role::kInput, "input." + std::to_string(i)), x.view,
                  false);  // each is twice the limit
  }
  writer.close();
  EXPECT_EQ(read(dir.path() / "t").records.size(), 64u);
}

TEST(Capture, CountsWhatIsNotFinite) {
  const TempDir dir;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  {
    CaptureWriter writer(dir.path() / "t", options(CaptureMode::kStatistics));
    const auto op = writer.op(linear());
    writer.tensor(leaf(op, Role::kInput, "input.0"),
                  filled(DType::kF32, {4}, {1, kInf, std::nan(""), -kInf}).view,
                  false);
    writer.tensor(leaf(op, Role::kInput, "input.1"),
                  filled(DType::kF32, {1}, {std::nan("")}).view, false);
    writer.close();
  }
  const Trace t = read(dir.path() / "t");
  EXPECT_EQ(t.records[0].value, R"({"nan":1,"inf":1,"-inf":1})");
  EXPECT_EQ(t.records[0].stats.max, 1);
  EXPECT_TRUE(t.records[0].file.empty());
  EXPECT_FALSE(t.records[1].stats.max.has_value());
}

TEST(Capture, CountsZerosAndWhatIsSaturated) {
  const TempDir dir;
  {
    CaptureWriter writer(dir.path() / "t", options(CaptureMode::kStatistics));
    const auto op = writer.op(linear());
    writer.tensor(leaf(op, Role::kInput, "input.0"),
                  filled(DType::kBF16, {4}, {0, 1e30, -0.0, 2}).view, false);
    writer.tensor(leaf(op, Role::kOutput, "output.0"),
                  filled(DType::kE4M3FN, {4}, {0, 448, -448, 2}).view, false);
    writer.tensor(leaf(op, Role::kOutput, "output.1"),
                  Tensor::zeros(DType::kE4M3FN, {0}).view, false);
    writer.close();
  }
  const Trace t = read(dir.path() / "t");
  EXPECT_EQ(t.records[0].zeros, 2);
  EXPECT_EQ(t.records[0].saturated, -1);  // bf16 does not saturate
  EXPECT_EQ(t.records[1].zeros, 1);
  EXPECT_EQ(t.records[1].saturated, 2);
  EXPECT_EQ(t.records[2].zeros, -1);  // an empty tensor has no statistics
}

// Runs `body` in a process of its own and returns how it ended.
template <typename F>
int in_child(F&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Capture, IsReadableAfterAKill) {
  const TempDir dir;
  const Tensor x = filled(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const int status = in_child([&] {
    CaptureWriter writer(dir.path() / "t", options());
    const auto op = writer.op(linear());
    writer.tensor(leaf(op, Role::kInput, "input.0"), x.view, false);
    writer.flush();
    ::raise(SIGKILL);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  const Trace t = read(dir.path() / "t");
  ASSERT_EQ(t.warnings.size(), 1u);
  EXPECT_THAT(t.warnings[0], HasSubstr("stopped before the step was over"));
  ASSERT_EQ(t.records.size(), 2u);
  EXPECT_TRUE(same(t.loader->load(t.records[0]), x));
  EXPECT_EQ(t.name(t.records[1]), "the rest of the step.tensor");
  EXPECT_THAT(t.records[1].unreadable, HasSubstr("the run was stopped"));
}

TEST(Capture, AForkedChildWritesNothing) {
  const TempDir dir;
  CaptureWriter writer(dir.path() / "t", options());
  const auto op = writer.op(linear());
  const Tensor x = filled(DType::kF32, {1}, {1});
  const int status = in_child([&] {
    writer.op(linear(1));
    writer.tensor(leaf(op, Role::kInput, "input.9"), x.view, false);
    writer.close();
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  writer.tensor(leaf(op, Role::kInput, "input.0"), x.view, false);
  writer.close();
  const Trace t = read(dir.path() / "t");
  EXPECT_EQ(t.ops.size(), 1u);
  EXPECT_EQ(t.records.size(), 1u);
}

// A limit on file sizes stands for a full disk.
TEST(Capture, AFullDiskStopsTheTraceAndNothingElse) {
  const TempDir dir;
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{kShardHeaderBytes + 4096, kShardHeaderBytes + 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    CaptureWriter writer(dir.path() / "t", options());
    const auto op = writer.op(linear());
    for (int i = 0; i < 100; ++i)
      writer.tensor(leaf(op, Role::kInput, "input." + std::to_string(i)),
                    filled(DType::kF32, {1024}, {static_cast<double>(i)}).view,
                    false);
    try {
      writer.close();
    } catch (const Error& error) {
      ::_exit(std::string(error.what())
                          .find("tensors-00000.safetensors: "
                                "File too large") != std::string::npos
                  ? 7
                  : 8);
    }
  });
  EXPECT_EQ(WEXITSTATUS(status), 7);
  const Trace t = read(dir.path() / "t");
  ASSERT_EQ(t.records.size(), 2u);
  EXPECT_THAT(t.records[1].unreadable, HasSubstr("has no end"));
}

TEST(Capture, RefusesAFolderThatHasOne) {
  const TempDir dir;
  CaptureWriter first(dir.path() / "t", options());
  try {
    CaptureWriter second(dir.path() / "t", options());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("there is a trace already"));
  }
}

class CaptureFile : public testing::Test {
 protected:
  void SetUp() override {
    CaptureWriter writer(dir_.path() / "t", options());
    const auto op = writer.op(linear());
    writer.tensor(leaf(op, Role::kInput, "input.0"),
                  filled(DType::kF32, {2, 2}, {1, 2, 3, 4}).view, false);
    writer.value({op, Role::kInput, "input.1", "str"}, "a \"quoted\" text");
    writer.close();
    file_ = dir_.path() / "t" / "trace.jsonl";
    text_ = bytes_of(file_);
  }
  void write(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
  }
  std::string changed(const std::string& from, const std::string& to) {
    std::string text = text_;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  }
  TempDir dir_;
  std::filesystem::path file_;
  std::string text_;
};

// Cut anywhere: either refused (no header) or read with a warning, with the
// records of the whole lines and one that stands for the rest.
TEST_F(CaptureFile, MayBreakOffAtAnyByte) {
  const std::size_t header = text_.find('\n') + 1;
  for (std::size_t size = 0; size < text_.size(); ++size) {
    write(text_.substr(0, size));
    if (size < header) {
      EXPECT_THROW(read(dir_.path() / "t"), Error) << size;
    } else {
      const Trace t = read(dir_.path() / "t");
      EXPECT_FALSE(t.warnings.empty()) << size;
      ASSERT_FALSE(t.records.empty());
      EXPECT_LE(t.records.size(), 3u);
      EXPECT_FALSE(t.records.back().unreadable.empty()) << size;
    }
  }
}

TEST_F(CaptureFile, RefusesWhatIsNone) {
  const std::pair<std::string, std::string> cases[] = {
      {changed("\"assay_trace\":1", "\"assay_trace\":2"), "version 2"},
      {changed("{\"assay_trace\"", "{\"some_trace\""), "expected a header"},
      {changed("\"of\":0", "\"of\":7"), "7 is none of the 1 before it"},
      {changed("\"of\":0", "\"of\":-1"), "-1 is none"},
      {changed("\"shape\":[2,2]", "\"shape\":[2,2.5]"), "expected an integer"},
      {changed("\"role\":\"input\"", "\"role\":\"guest\""), "unknown word"},
      {changed("{\"op\"", "{\"opus\""), "unknown line \"opus\""},
      {changed("\"zeros\":0", "\"zeros\":-4"), "expected a count"},
  };
  for (const auto& [text, message] : cases) {
    write(text);
    try {
      read(dir_.path() / "t");
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kRefused);
      EXPECT_THAT(error.what(), HasSubstr(message));
      EXPECT_THAT(error.what(), HasSubstr("trace.jsonl:"));
    }
  }
}

TEST_F(CaptureFile, RefusesTensorsOutsideOfTheirFile) {
  const std::string at = "\"at\":" + std::to_string(kShardHeaderBytes);
  for (const std::string& text :
       {changed(at, "\"at\":0"), changed(at, "\"at\":1048577"),
        changed(at, "\"at\":9223372036854775807"), changed(at, "\"at\":-5"),
        changed("\"shape\":[2,2]", "\"shape\":[2,3]")}) {
    write(text);
    const Trace t = read(dir_.path() / "t");
    EXPECT_THROW(t.loader->load(t.records[0]), Error);
  }
  write(changed("\"dtype\":\"float32\"", "\"dtype\":\"float33\""));
  const Trace t = read(dir_.path() / "t");
  EXPECT_THAT(t.records[0].unreadable, HasSubstr("float33"));
}

TEST_F(CaptureFile, AShapeWithoutASizeIsUnreadable) {
  write(changed("\"shape\":[2,2]", "\"shape\":[-2,2]"));
  EXPECT_THAT(read(dir_.path() / "t").records[0].unreadable,
              HasSubstr("has no size"));
}

TEST_F(CaptureFile, IsFoundAsADump) {
  const auto found = locate_traces(dir_.path());
  ASSERT_EQ(found.size(), 1u);
  const Trace t = read_trace(found[0]);
  EXPECT_EQ(t.records.size(), 2u);
}

}  // namespace
}  // namespace assay
