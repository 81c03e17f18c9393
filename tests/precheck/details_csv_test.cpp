// The details csv: what msprobe writes, what people do to it, and damage.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "assay/base/error.h"
#include "assay/precheck/detail/csv.h"

namespace assay::precheck {
namespace {

std::string heading_without_mark() { return details_csv_heading().substr(3); }

// A file that Python's csv module wrote for msprobe 26.2.0: a byte order mark,
// CR LF, blanks for figures that do not apply, messages of several lines.
const std::string kOfMsprobe =
    "\xef\xbb\xbf"
    "API Name,Bench Dtype,DEVICE Dtype,Shape,余弦相似度,最大绝对误差,"
    "双百指标,双千指标,双万指标,二进制一致错误率,误差均衡性,均方根误差,"
    "小值域错误占比,相对误差最大值,相对误差平均值,inf/nan错误率,"
    "相对误差错误率,绝对误差错误率,ULP误差最大值,ULP误差平均值,"
    "ULP误差大于阈值占比,Status,Message\r\n"
    "Torch.add.0.forward.output.0,torch.float32,torch.bfloat16,\"(3, 4)\","
    "0.99999935231315,0.002483368,1.00000000000000,0.50000000000000, , ,"
    "0.50000000000000,0.00118831639442,0,0.0016027128,0.0010001833, , , , , ,"
    " ,warning,\"\nRelative error is greater than 0.001.\n\"\r\n"
    "Torch.add.1.forward.output.0,torch.int64,torch.int64,\"(3,)\", , , , , ,"
    "0.33333333333333, , , , , , , , , , , ,error,\"say \"\"hi\"\", "
    "twice\"\r\n";

TEST(DetailsCsv, ReadsWhatMsprobeWrites) {
  const std::vector<Detail> rows = parse_details_csv(kOfMsprobe, "d.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].name, "Torch.add.0.forward.output.0");
  EXPECT_EQ(rows[0].bench_dtype, "torch.float32");
  EXPECT_EQ(rows[0].device_dtype, "torch.bfloat16");
  EXPECT_EQ(rows[0].shape, "(3, 4)");
  EXPECT_EQ(rows[0].cosine, 0.99999935231315);
  EXPECT_EQ(rows[0].thousandth, 0.5);
  EXPECT_EQ(rows[0].ten_thousandth, std::nullopt);
  EXPECT_EQ(rows[0].rmse, 0.00118831639442);
  EXPECT_EQ(rows[0].small_value_error_ratio, 0.0);
  EXPECT_EQ(rows[0].rel_error_ratio, std::nullopt);
  EXPECT_EQ(rows[0].status, "warning");
  EXPECT_EQ(rows[0].message, "Relative error is greater than 0.001.");
  EXPECT_EQ(rows[1].binary_error_rate, 0.33333333333333);
  EXPECT_EQ(rows[1].max_abs, std::nullopt);
  EXPECT_EQ(rows[1].message, "say \"hi\", twice");
}

TEST(DetailsCsv, OursReadsBackAsItWas) {
  Detail detail;
  detail.name = "Functional.linear.0.forward.output.0";
  detail.bench_dtype = "torch.float64";
  detail.device_dtype = "torch.float16";
  detail.shape = "(4, 16)";
  detail.cosine = 0.1 + 0.2;
  detail.max_abs = INFINITY;
  detail.hundredth = -0.0;
  detail.rmse = 5e-324;
  detail.max_rel = NAN;
  detail.mean_rel = 1.7976931348623157e308;
  detail.status = "error";
  detail.message = "=cmd(), \"x\"";
  const auto path =
      std::filesystem::temp_directory_path() / "assay_details_test.csv";
  write_details_csv(path, std::span(&detail, 1));
  const std::vector<Detail> rows = read_details_csv(path);
  std::filesystem::remove(path);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, detail.name);
  EXPECT_EQ(rows[0].shape, detail.shape);
  EXPECT_EQ(rows[0].cosine, detail.cosine);
  EXPECT_EQ(rows[0].max_abs, detail.max_abs);
  EXPECT_TRUE(std::signbit(rows[0].hundredth.value()));
  EXPECT_EQ(rows[0].rmse, detail.rmse);
  EXPECT_TRUE(std::isnan(rows[0].max_rel.value()));
  EXPECT_EQ(rows[0].mean_rel, detail.mean_rel);
  EXPECT_EQ(rows[0].thousandth, std::nullopt);
  EXPECT_EQ(rows[0].message, detail.message);
  std::string line;
  append_detail_row(line, detail);
  EXPECT_NE(line.find("\"'=cmd(), \"\"x\"\"\""), std::string::npos) << line;
}

TEST(DetailsCsv, ColumnsInAnyOrderWithOthersBetween) {
  std::string heading = "Owner,", row = "me,";
  for (const char* name :
       {"双千指标", "二进制一致错误率", "误差均衡性", "均方根误差",
        "小值域错误占比", "相对误差最大值", "相对误差平均值", "inf/nan错误率",
        "相对误差错误率", "绝对误差错误率", "ULP误差平均值",
        "ULP误差大于阈值占比"}) {
    heading += std::string(name) + ",";
    row += std::string(name) == "均方根误差" ? "+1e-3," : "N/A,";
  }
  const std::vector<Detail> rows =
      parse_details_csv(heading + "'=x,DEVICE Dtype,API Name\n\n" + row +
                            "1,torch.float16,'-a.b.0.forward.output.0",
                        "d.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "-a.b.0.forward.output.0");
  EXPECT_EQ(rows[0].rmse, 1e-3);
  EXPECT_EQ(rows[0].max_rel, std::nullopt);
}

void expect_refused(const std::string& bytes, const std::string& says) {
  try {
    parse_details_csv(bytes, "d.csv");
    FAIL() << "accepted, expected: " << says;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kRefused);
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
        << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

TEST(DetailsCsv, RefusesAndSaysWhere) {
  expect_refused("", "d.csv: empty");
  expect_refused("a,b\n1,2\n", "without 'API Name', 'DEVICE Dtype', '双千");
  expect_refused("API Name,API Name\n", "d.csv:1: the column 'API Name' twice");
  const std::string heading = heading_without_mark();
  expect_refused(heading + "a,b\n", "d.csv:2: 2 cells, expected");
  expect_refused(heading + "\"a\nb", "d.csv:2: a quoted cell without");
  expect_refused(heading + "\"a\"b,", "d.csv:2: text behind a closing quote");
  expect_refused(heading + " , , , , , , , , , , , , , , , , , , , , , , \n",
                 "d.csv:2: no API name");
  const std::string good = "a.b.0.forward.output.0, , , , , , , , , ,";
  const std::string rest = ", , , , , , , , , , , , \n";
  EXPECT_EQ(parse_details_csv(heading + good + " " + rest, "d").size(), 1u);
  expect_refused(heading + "\n" + good + "0x1" + rest,
                 "d.csv:3: column '误差均衡性' has '0x1'");
  expect_refused(heading + good + "1,5" + rest,
                 "24 cells, expected the heading's 23");
  expect_refused(heading + good + "\x1b[0m" + rest, "has '\\x1b[0m'");
  expect_refused(std::string(5000, ','), "more cells");
}

// Cut anywhere, it is refused, or reads as the rows that are whole: a cell
// that lost its end is not told from a short one in the last column alone.
TEST(DetailsCsv, CutAtEveryByte) {
  const std::vector<Detail> whole = parse_details_csv(kOfMsprobe, "d.csv");
  int refused = 0;
  for (std::size_t size = 0; size < kOfMsprobe.size(); ++size) {
    const std::string cut = kOfMsprobe.substr(0, size);
    try {
      const std::vector<Detail> rows = parse_details_csv(cut, "cut");
      ASSERT_LE(rows.size(), whole.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].name, whole[i].name);
        EXPECT_EQ(rows[i].mean_rel, whole[i].mean_rel);
        EXPECT_EQ(rows[i].binary_error_rate, whole[i].binary_error_rate);
        EXPECT_EQ(rows[i].status, whole[i].status);
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kRefused);
      ++refused;
    }
  }
  EXPECT_GT(refused, 600);
}

}  // namespace
}  // namespace assay::precheck
