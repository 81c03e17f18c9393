#include "assay/conform/report/run_fields.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Undoes append_json_string's U+FFFD and two digits for one byte.
std::string restored(const std::string& text) {
  constexpr std::string_view kMark = "\xEF\xBF\xBD";
  std::string out;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(kMark, from)) != text.npos;) {
    out.append(text, from, at - from);
    from = at + kMark.size();
    if (from + 2 > text.size()) continue;
    const int high = hex_digit(text[from]), low = hex_digit(text[from + 1]);
    if (high < 0 || low < 0) continue;
    out.push_back(static_cast<char>(high * 16 + low));
    from += 2;
  }
  return out.append(text, from, text.npos);
}

std::string shown(const Value& value) {
  const std::string text = to_json(value);
  return printable(text.size() > 80 ? text.substr(0, 80) + "..." : text);
}

}  // namespace

Value read_json_file(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (file->size() > kMostBytes)
    throw Error(
        Code::kRefused,
        fmt::format("{}: {}, expected at most 1 GiB of JSON",
                    printable(path.string()),
                    human_bytes(static_cast<std::int64_t>(file->size()))));
  const std::string_view text(
      reinterpret_cast<const char*>(file->bytes().data()), file->size());
  Value value = parse_json(text, path.string());
  file->check_intact();
  return value;
}

RunFields::RunFields(const Value& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  if (!object.is_object())
    throw Error(Code::kRefused, printable(where_) + ": " + shown(object) +
                                    ", expected an object");
}

std::string RunFields::path_of(const char* name) const {
  // The file, then the member: "run.json: golden.device".
  const bool nested = where_.find(": ") != where_.npos;
  return where_ + (nested ? "." : ": ") + name;
}

void RunFields::wrong(const char* name, const std::string& what) const {
  throw Error(Code::kRefused, printable(path_of(name)) + ": " + what);
}

const Value* RunFields::find(const char* name) const {
  return object_->find(name);
}

const Value& RunFields::at(const char* name) const {
  const Value* value = find(name);
  if (!value) wrong(name, "is missing");
  return *value;
}

std::string RunFields::text(const char* name) const {
  const Value& value = at(name);
  if (!value.is_text()) wrong(name, shown(value) + ", expected a text");
  return restored(value.text());
}

std::string RunFields::text_or(const char* name, const char* absent) const {
  return find(name) ? text(name) : absent;
}

std::vector<std::string> RunFields::texts(const char* name) const {
  const Value& value = at(name);
  std::vector<std::string> all;
  if (!value.is_list()) wrong(name, shown(value) + ", expected a list");
  for (const Value& item : value.list()) {
    if (!item.is_text()) wrong(name, shown(item) + ", expected texts");
    all.push_back(restored(item.text()));
  }
  return all;
}

bool RunFields::flag_or(const char* name, bool absent) const {
  const Value* value = find(name);
  if (!value) return absent;
  if (!value->is_bool()) wrong(name, shown(*value) + ", expected a boolean");
  return value->boolean();
}

std::int64_t RunFields::integer(const char* name, std::int64_t least,
                                std::int64_t most) const {
  const Value& value = at(name);
  if (!value.is_integer() || value.integer() < least || value.integer() > most)
    wrong(name, fmt::format("{}, expected an integer from {} to {}",
                            shown(value), least, most));
  return value.integer();
}

std::int64_t RunFields::integer_or(const char* name,
                                   std::int64_t absent) const {
  if (!find(name)) return absent;
  return integer(name, std::numeric_limits<std::int64_t>::min(),
                 std::numeric_limits<std::int64_t>::max());
}

double RunFields::number(const char* name) const {
  const Value& value = at(name);
  if (value.is_number()) return value.number();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value == Value("nan")) return std::numeric_limits<double>::quiet_NaN();
  if (value == Value("inf")) return kInfinity;
  if (value == Value("-inf")) return -kInfinity;
  wrong(name, shown(value) + ", expected a number");
}

double RunFields::number_or(const char* name, double absent) const {
  return find(name) ? number(name) : absent;
}

Object RunFields::object(const char* name) const {
  const Value& value = at(name);
  if (!value.is_object()) wrong(name, shown(value) + ", expected an object");
  return value.object();
}

RunFields RunFields::member(const char* name) const {
  return {at(name), path_of(name)};
}

void RunFields::each(const char* name,
                     const std::function<void(const RunFields&)>& visit) const {
  const Value& value = at(name);
  if (!value.is_list()) wrong(name, shown(value) + ", expected a list");
  std::size_t i = 0;
  for (const Value& item : value.list())
    visit(RunFields(item, fmt::format("{}[{}]", path_of(name), i++)));
}

}  // namespace assay::conform
