// Damaged and hostile dumps: an Error or an unreadable record, nothing worse.
#include <cmath>

#include "assay/formats/npy_writer.h"
#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

constexpr char kEntries[] =
    R"("Functional.f.0.forward": {"input_args": [{"type":"torch.Tensor",
 "dtype":"torch.float32","shape":[2,3],"Max":1.5,"Min":NaN,"Mean":-1e-3,
 "Norm":Infinity,"requires_grad":true,"data_name":"a.npy"}, null,
 [{"type":"slice","value":[0,null,2]}]], "input_kwargs": {"g":
 {"type":"torch.ProcessGroup","group_ranks":[0,1],"group_id":"ab"}},
 "is_recompute": false, "output": []},
 "Module.a.L.forward.0": {"input_args": [], "output": [{"type":"str",
 "value":"\u00e9"}]})";

std::string tensor_with(const std::string& data_name) {
  return R"("Functional.f.0.forward": {"input_args": [{"type":"torch.Tensor",)"
         R"("dtype":"torch.float32","shape":[1],"data_name":")" +
         data_name + "\"}], \"output\": []}";
}

void read_quietly(const TempDir& dir) {
  try {
    const Trace trace = read_trace({dir.path(), 0, 0, false});
    for (const Record& record : trace.records) {
      if (record.file.empty()) continue;
      try {
        trace.loader->load(record);
      } catch (const Error&) {
      }
    }
  } catch (const Error&) {
  }
}

TEST(HostileDump, TruncatedAtEveryByteSaysHowFarItGot) {
  const std::string whole = dump_text(kEntries);
  const TempDir dir;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    dir.write("dump.json", std::string_view(whole).substr(0, length));
    const std::string message = error_of(Code::kUnreadable, [&] {
      read_trace({dir.path(), 0, 0, false});
    });
    EXPECT_NE(message.find("dump.json: the file ends at offset"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find(" complete entries)"), std::string::npos);
  }
}

TEST(HostileDump, ACrashedDumpCountsItsCompleteEntries) {
  const std::string whole = dump_text(kEntries);
  const TempDir dir;
  dir.write("dump.json",
            std::string_view(whole).substr(0, whole.find("Module.a.L") + 40));
  EXPECT_NE(error_of(Code::kUnreadable,
                     [&] {
                       read_trace({dir.path(), 0, 0, false});
                     })
                .find("(after 1 complete entries)"),
            std::string::npos);
}

TEST(HostileDump, BitFlipsNeverCrash) {
  const std::string whole = dump_text(kEntries);
  const TempDir dir;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 5, 7}) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      dir.write("dump.json", flipped);
      read_quietly(dir);
    }
  }
}

TEST(HostileDump, SideFilesTruncatedAtEveryByteAreWarnings) {
  const std::string stack =
      R"({"0": [["Functional.f.0.forward"], ["File a", "b"]]})";
  const std::string construct =
      R"({"Functional.f.0.forward": ["Module.a.L.forward.0", 1]})";
  const TempDir dir;
  dir.write("dump.json", dump_text(kEntries));
  for (std::size_t length = 1; length < construct.size(); ++length) {
    dir.write("stack.json", std::string_view(stack).substr(0, length));
    dir.write("construct.json", std::string_view(construct).substr(0, length));
    const Trace trace = read_trace({dir.path(), 0, 0, false});
    EXPECT_TRUE(warns(trace, "construct.json: the file ends"));
    EXPECT_EQ(trace.ops.size(), 2u);
  }
}

TEST(HostileDump, DeepNestingIsRefused) {
  const TempDir dir;
  for (const char* opening : {"[", "{\"a\":", "[{\"type\":\"x\",\"value\":["}) {
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += opening;
    dir.write(
        "dump.json",
        dump_text("\"Functional.f.0.forward\": {\"input_args\": " + deep));
    const std::string message = error_of(Code::kRefused, [&] {
      read_trace({dir.path(), 0, 0, false});
    });
    EXPECT_NE(message.find("nesting"), std::string::npos) << message;
  }
}

TEST(HostileDump, LongPathsAreNotMultiplied) {
  const TempDir dir;
  const std::string key(5000, 'k');
  dir.write("dump.json",
            dump_text("\"Functional.f.0.forward\": {\"input_kwargs\": {\"" +
                      key + "\": [null, null]}}"));
  error_of(Code::kRefused, [&] { read_trace({dir.path(), 0, 0, false}); });
}

TEST(HostileDump, DataNamesStayInTheDumpsDirectory) {
  const TempDir dir;
  write_npy(dir / "secret.npy", f32_tensor({1}, {1}).view);
  std::filesystem::create_directories(dir / "d/dump_tensor_data/sub");
  std::filesystem::create_symlink(dir / "secret.npy",
                                  dir / "d/dump_tensor_data/link.npy");
  const std::vector<std::string> hostile_names = {"../../secret.npy",
                                                  (dir / "secret.npy").string(),
                                                  "..",
                                                  "sub",
                                                  "sub/x.npy",
                                                  "link.npy",
                                                  "a\\\\b",
                                                  "nul\\u0000.npy",
                                                  ""};
  for (const std::string& name : hostile_names) {
    dir.write("d/dump.json", dump_text(tensor_with(name), "tensor"));
    const Trace trace = read_only(dir / "d");
    EXPECT_NE(trace.records[0].unreadable, "") << name;
    EXPECT_EQ(trace.records[0].unreadable.find('\0'), std::string::npos);
    EXPECT_THROW(trace.loader->load(trace.records[0]), Error) << name;
  }
}

TEST(HostileDump, TheProducersPathIsNeverUsed) {
  const TempDir elsewhere;
  write_npy(elsewhere / "a.npy", f32_tensor({1}, {1}).view);
  const TempDir dir;
  dir.write("dump.json", "{\"task\":\"tensor\",\"dump_data_dir\":\"" +
                             elsewhere.path().string() + "\",\"data\":{" +
                             tensor_with("a.npy") + "}}");
  EXPECT_EQ(read_only(dir.path()).records[0].unreadable,
            "data file absent: a.npy");
}

TEST(HostileDump, ASiblingNamedLikeTheProducersDirectoryIsUsed) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "kept");
  write_npy(dir / "kept/a.npy", f32_tensor({1}, {7}).view);
  dir.write("dump.json",
            R"({"task":"tensor","dump_data_dir":"/gone/away/kept/","data":{)" +
                tensor_with("a.npy") + "}}");
  const Trace trace = read_only(dir.path());
  EXPECT_EQ(f32_values(trace.loader->load(trace.records[0])),
            std::vector<float>{7});
}

TEST(HostileDump, InvalidUtf8IsRefused) {
  const TempDir dir;
  dir.write("dump.json", dump_text("\"Functional.\xff.0.forward\": {}"));
  EXPECT_NE(error_of(Code::kRefused,
                     [&] {
                       read_trace({dir.path(), 0, 0, false});
                     })
                .find("not valid UTF-8"),
            std::string::npos);
}

TEST(HostileDump, HugeNumbersAreInfinite) {
  const TempDir dir;
  const Trace trace = read_dump(
      dir, R"("Functional.f.0.forward": {"output": [{"type":"torch.Tensor",
        "dtype":"torch.float32","shape":[1],"Max":1e999,"Min":-1e999}]})");
  EXPECT_EQ(trace.records[0].stats.max, INFINITY);
  EXPECT_EQ(trace.records[0].stats.min, -INFINITY);
}

TEST(HostileDump, WithoutDataOrWithItTwiceIsRefused) {
  const TempDir dir;
  for (const char* text :
       {R"({"task":"tensor"})", R"({"dump_data_dir":null,"data":[]})",
        R"({"data":{},"data":{}})", "[]", "7"}) {
    dir.write("dump.json", text);
    error_of(Code::kRefused, [&] { read_trace({dir.path(), 0, 0, false}); });
  }
}

TEST(HostileDump, AFileWithSeveralTensorsIsNoDataFile) {
  const TempDir dir;
  dir.write("dump.json", dump_text(tensor_with("a.npy"), "tensor"));
  dir.write("dump_tensor_data/a.npy", "not a tensor");
  const Trace trace = read_only(dir.path());
  EXPECT_EQ(trace.records[0].unreadable, "") << "found out when it is loaded";
  EXPECT_THROW(trace.loader->load(trace.records[0]), Error);
}

}  // namespace
}  // namespace assay
