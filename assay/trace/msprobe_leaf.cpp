// The arguments and results of one operator in an msprobe dump.
#include "assay/trace/msprobe_leaf.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "assay/base/text.h"

namespace assay {
namespace {

constexpr double kExactInteger = 9007199254740992.0;  // 2^53

constexpr std::size_t kMaxPath = 1024;  // every record below it repeats it

bool is_scalar(JsonToken token) {
  return token == JsonToken::kString || token == JsonToken::kNumber ||
         token == JsonToken::kTrue || token == JsonToken::kFalse ||
         token == JsonToken::kNull;
}

bool is_integer_text(std::string_view text) {
  return text.find_first_not_of("-0123456789") == text.npos;
}

// One spelling for each value: integers as written, floats shortest.
std::string number_text(std::string_view text) {
  if (is_integer_text(text)) return std::string(text);
  const double value = json_number(text);
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return format_double(value);
}

std::string scalar_text(const JsonReader& json, JsonToken token) {
  switch (token) {
    case JsonToken::kNumber:
      return number_text(json.text());
    case JsonToken::kString:
      return std::string(json.text());
    case JsonToken::kTrue:
      return "True";
    case JsonToken::kFalse:
      return "False";
    default:
      return "None";
  }
}

const char* scalar_type(const JsonReader& json, JsonToken token) {
  switch (token) {
    case JsonToken::kNumber:
      return is_integer_text(json.text()) ? "int" : "float";
    case JsonToken::kString:
      return "str";
    case JsonToken::kNull:
      return "NoneType";
    default:
      return "bool";
  }
}

bool names_tensor(std::string_view type) {
  return type.ends_with("Tensor") || type == "numpy.ndarray";
}

}  // namespace

LeafReader::LeafReader(JsonReader& json, const DataDirectory& data,
                       std::vector<Record>& records)
    : json_(json), data_(data), records_(records) {}

void LeafReader::begin(std::uint32_t op, Role role, std::string_view path,
                       bool list_adds_index) {
  op_ = op;
  role_ = role;
  path_ = path;
  root_ = path.size();
  list_adds_index_ = list_adds_index;
}

std::unique_ptr<Collective> LeafReader::take_collective() {
  return std::move(collective_);
}

Record& LeafReader::append() {
  Record& record = records_.emplace_back();
  record.op = op_;
  record.role = role_;
  record.leaf = path_;
  return record;
}

void LeafReader::read(JsonToken token) {
  if (token == JsonToken::kBeginArray) {
    read_array();
  } else if (token == JsonToken::kBeginObject) {
    read_object();
  } else {
    read_scalar(token);
  }
}

void LeafReader::read_scalar(JsonToken token) {
  Record& record = append();
  record.is_tensor = false;
  record.type = scalar_type(json_, token);
  record.value = scalar_text(json_, token);
}

// An argument that is an empty container is an argument: without a leaf,
// f(x, []) and f(x) would read the same. The lists of all arguments and of all
// results are none.
void LeafReader::note_empty(std::string_view type, std::string_view text) {
  if (path_.size() == root_) return;
  Record& record = append();
  record.is_tensor = false;
  record.type = type;
  record.value = text;
}

void LeafReader::step_into(std::string_view part) {
  if (!path_.empty()) path_ += '.';
  path_ += part;
  if (path_.size() > kMaxPath) json_.refuse("a leaf's path exceeds 1024 bytes");
}

void LeafReader::read_array() {
  const std::size_t length = path_.size();
  std::int64_t index = 0;
  for (JsonToken token = json_.next(); token != JsonToken::kEndArray;
       token = json_.next(), ++index) {
    if (list_adds_index_ || index > 0) step_into(std::to_string(index));
    read(token);
    path_.resize(length);
  }
  if (index == 0) note_empty("list", "[]");
}

// A leaf is an object with a string member "type" (or "class_type"); any other
// object is a dict of leaves. Python writes "type" first; where some tool
// sorted the keys, the object is read a second time as what it is.
void LeafReader::read_object() {
  const std::size_t length = path_.size();
  const std::size_t first = records_.size();
  const JsonReader::Mark begin = json_.mark();
  bool first_key = true;
  for (; json_.next() == JsonToken::kKey; first_key = false) {
    const bool names_type = json_.text() == "type";
    const bool names_class = json_.text() == "class_type";
    step_into(json_.text());
    const JsonToken token = json_.next();
    if ((names_type || names_class) && token == JsonToken::kString) {
      path_.resize(length);
      records_.resize(first);
      if (first_key && names_type) {
        read_leaf(json_.text());
      } else {
        json_.rewind(begin);
        read_leaf("");
      }
      return;
    }
    read(token);
    path_.resize(length);
  }
  if (first_key) note_empty("dict", "{}");
}

void LeafReader::read_leaf(std::string_view type) {
  Record& record = append();
  record.type = type;
  has_shape_ = has_value_ = false;
  extra_.clear();
  read_members(record);
  finish(record);
}

void LeafReader::read_members(Record& record) {
  while (json_.next() == JsonToken::kKey) {
    // The keys we know fit; a longer one is not among them.
    char buffer[16];
    const std::string_view text = json_.text();
    if (text.empty() || text.size() > sizeof buffer) {
      const std::string key(text);
      add_extra(key, json_.next());
      continue;
    }
    const std::string_view key(buffer, text.copy(buffer, text.size()));
    member(record, key, json_.next());
  }
}

void LeafReader::member(Record& record, std::string_view key, JsonToken token) {
  if (tensor_member(record, key, token)) return;
  if (key == "type" && token == JsonToken::kString) {
    record.type = json_.text();
  } else if (key == "value" || key == "format") {
    set_value(record, token);
  } else if (key == "tensor" && token == JsonToken::kBeginObject) {
    read_members(record);
  } else if (key == "group_ranks" || key == "group_id" || key == "peer") {
    collective_member(key, token);
  } else {
    add_extra(key, token);
  }
}

bool LeafReader::tensor_member(Record& record, std::string_view key,
                               JsonToken token) {
  if (key == "dtype" && token == JsonToken::kString) {
    set_dtype(record);
  } else if (key == "shape" && token == JsonToken::kBeginArray) {
    read_shape(record);
  } else if (key[0] == 'M' || key[0] == 'N') {
    return statistic(record, key, token);
  } else if (key == "requires_grad" &&
             (token == JsonToken::kTrue || token == JsonToken::kFalse)) {
    record.facts.requires_grad = token == JsonToken::kTrue;
  } else if (key == "data_name" && token == JsonToken::kString) {
    set_file(record);
  } else if (key == "md5" && token == JsonToken::kString) {
    record.digest = json_.text();
  } else {
    return token == JsonToken::kNull && (key == "data_name" || key == "md5");
  }
  return true;
}

// Integers that a double cannot hold are kept as text too: two different ones
// must not look alike.
bool LeafReader::statistic(Record& record, std::string_view key,
                           JsonToken token) {
  std::optional<double>* slot = key == "Max"    ? &record.stats.max
                                : key == "Min"  ? &record.stats.min
                                : key == "Mean" ? &record.stats.mean
                                : key == "Norm" ? &record.stats.norm
                                                : nullptr;
  if (slot == nullptr) return false;
  if (token == JsonToken::kNumber) {
    *slot = json_.number();
    if (std::fabs(**slot) > kExactInteger && is_integer_text(json_.text())) {
      add_extra(key, token);
    }
  } else if (token == JsonToken::kTrue || token == JsonToken::kFalse) {
    *slot = token == JsonToken::kTrue ? 1.0 : 0.0;
  } else {
    return token == JsonToken::kNull;
  }
  return true;
}

void LeafReader::collective_member(std::string_view key, JsonToken token) {
  std::string text;
  append_json(json_, token, text);
  if (!extra_.empty()) extra_ += ',';
  extra_ += '"' + std::string(key) + "\":" + text;
  if (!collective_) collective_ = std::make_unique<Collective>();
  if (key == "group_id") {
    if (text.size() >= 2 && text[0] == '"') {
      text = text.substr(1, text.size() - 2);
    }
    collective_->group_id = text;
    return;
  }
  std::vector<std::int64_t> numbers;
  for (std::string_view part : split(std::string_view(text), ',')) {
    if (!part.empty() && part.front() == '[') part.remove_prefix(1);
    if (!part.empty() && part.back() == ']') part.remove_suffix(1);
    std::int64_t number = 0;
    const char* end = part.data() + part.size();
    if (std::from_chars(part.data(), end, number).ptr == end && !part.empty()) {
      numbers.push_back(number);
    }
  }
  if (key == "peer" && numbers.size() == 1) collective_->peer = numbers[0];
  if (key == "group_ranks") collective_->group_ranks = std::move(numbers);
}

void LeafReader::set_value(Record& record, JsonToken token) {
  has_value_ = true;
  if (is_scalar(token)) {
    record.value = scalar_text(json_, token);
  } else {
    record.value.clear();
    append_json(json_, token, record.value);
  }
}

void LeafReader::add_extra(std::string_view key, JsonToken token) {
  if (!extra_.empty()) extra_ += ',';
  extra_ += '"';
  extra_ += key;
  extra_ += "\":";
  append_json(json_, token, extra_);
}

void LeafReader::read_shape(Record& record) {
  record.facts.shape.clear();
  record.facts.shape.reserve(4);
  has_shape_ = true;
  for (JsonToken token = json_.next(); token != JsonToken::kEndArray;
       token = json_.next()) {
    const std::string_view text = json_.text();
    std::int64_t size = -1;
    if (token == JsonToken::kNumber) {
      const char* end = text.data() + text.size();
      const auto result = std::from_chars(text.data(), end, size);
      if (result.ptr != end || result.ec != std::errc()) size = -1;
    } else {
      json_.skip(token);
    }
    if (size < 0) record.unreadable = "the dump's shape is no list of sizes";
    record.facts.shape.push_back(size);
  }
}

void LeafReader::set_dtype(Record& record) {
  if (json_.text() != dtype_text_) {
    dtype_text_ = json_.text();
    dtype_ = parse_dtype(dtype_text_);
  }
  record.facts.dtype = dtype_;
  record.facts.dtype_text = dtype_text_;
}

void LeafReader::set_file(Record& record) {
  if (json_.text() == "-1") return;
  record.file = json_.text();
  std::string problem = data_.problem(record.file);
  if (!problem.empty()) record.unreadable = std::move(problem);
}

void LeafReader::finish(Record& record) {
  const bool has_dtype = !record.facts.dtype_text.empty();
  record.is_tensor = names_tensor(record.type) || (has_dtype && has_shape_);
  if (!extra_.empty()) {
    if (has_value_) extra_ += ",\"value\":" + record.value;
    record.value = '{' + extra_ + '}';
  }
  if (record.is_tensor && record.unreadable.empty() &&
      !(has_dtype && has_shape_)) {
    record.unreadable =
        std::string("the dump gives no ") + (has_dtype ? "shape" : "dtype");
  }
}

}  // namespace assay
