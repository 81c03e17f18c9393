// The reader of snapshots: files of others, of which nothing is believed.
#include <charconv>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"
#include "assay/env/snapshot.h"
#include "assay/trace/json_reader.h"

namespace assay::env {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;

class Reader {
 public:
  Reader(std::string_view text, const std::string& source)
      : json_(text, source), source_(source) {}

  Snapshot read() {
    Snapshot made;
    made.path = source_;
    bool format = false, version = false;
    json_.expect(JsonToken::kBeginObject, "an object");
    members([&](const std::string& key) {
      if (key == "format") {
        format = text() == kFormat;
      } else if (key == "version") {
        version = integer() == kVersion;
      } else if (key == "taken") {
        made.taken = text();
      } else if (key == "sections") {
        sections(made);
      } else {
        lists(key, made);
      }
    });
    json_.expect(JsonToken::kEnd, "the end of the file");
    if (!format || !version)
      json_.refuse("expected \"format\": \"assay-env\" and \"version\": 1");
    check(made);
    number(made.weights);
    for (Batch& batch : made.batches) number(batch.leaves);
    return made;
  }

 private:
  // Two of one name are two: neither hides the other.
  static void number(std::vector<TensorPrint>& prints) {
    std::map<std::string, int> seen;
    for (TensorPrint& print : prints)
      if (const int times = ++seen[print.name]; times > 1)
        print.name += "#" + std::to_string(times);
  }

  template <typename F>
  void members(F&& member) {
    for (JsonToken token = json_.next(); token != JsonToken::kEndObject;
         token = json_.next()) {
      const std::string key(json_.text());
      member(key);
    }
  }
  template <typename F>
  void object(F&& member) {
    json_.expect(JsonToken::kBeginObject, "an object");
    members(member);
  }
  // item(token): the first token of each.
  template <typename F>
  void array(F&& item) {
    json_.expect(JsonToken::kBeginArray, "a list");
    for (JsonToken token = json_.next(); token != JsonToken::kEndArray;
         token = json_.next())
      item(token);
  }

  std::string text() {
    json_.expect(JsonToken::kString, "text");
    return std::string(json_.text());
  }
  std::int64_t integer() {
    json_.expect(JsonToken::kNumber, "an integer");
    return as_integer();
  }
  std::int64_t as_integer() {
    std::int64_t value = 0;
    const std::string_view word = json_.text();
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < 0)
      json_.refuse("expected an integer from 0 to 2^63 - 1");
    return value;
  }
  bool boolean() {
    const JsonToken token = json_.next();
    if (token != JsonToken::kTrue && token != JsonToken::kFalse)
      json_.refuse("expected true or false");
    return token == JsonToken::kTrue;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> all;
    array([&](JsonToken token) {
      if (token != JsonToken::kString) json_.refuse("expected text");
      all.emplace_back(json_.text());
    });
    return all;
  }
  std::map<std::string, std::string> text_map() {
    std::map<std::string, std::string> all;
    object([&](const std::string& key) {
      const JsonToken token = json_.next();
      if (token != JsonToken::kString && token != JsonToken::kNumber)
        json_.refuse("expected text or a number");
      once(all.emplace(key, json_.text()).second, key);
    });
    return all;
  }
  void once(bool first, const std::string& key) const {
    if (!first) json_.refuse("key '" + printable(key) + "' stands twice");
  }

  void sections(Snapshot& made) {
    object([&](const std::string& name) {
      for (std::size_t i = 0; i < kSectionNames.size(); ++i) {
        if (name != kSectionNames[i]) continue;
        once(!made.sections[i].collected && made.sections[i].missing.empty(),
             name);
        section(made.sections[i]);
        return;
      }
      json_.refuse("section '" + printable(name) + "', which is none");
    });
  }

  void section(SectionFacts& facts) {
    object([&](const std::string& key) {
      if (key == "collected") {
        facts.collected = boolean();
      } else if (key == "missing") {
        facts.missing = texts();
      } else if (key == "scope") {
        facts.scope = scope(text());
      } else if (key == "values") {
        object([&](const std::string& name) {
          once(facts.values.emplace(name, value()).second, name);
        });
      } else {
        json_.skip(json_.next());
      }
    });
  }

  Scope scope(const std::string& word) const {
    for (std::size_t i = 0; i < kScopeNames.size(); ++i)
      if (kScopeNames[i] == word) return static_cast<Scope>(i);
    json_.refuse("scope '" + printable(word) +
                 "', expected script, listed or all");
  }

  // A scalar, or {"value": scalar, "from": "run.sh:12"}.
  Value value() {
    const JsonToken token = json_.next();
    if (token != JsonToken::kBeginObject) return scalar(token);
    Value made;
    bool found = false;
    members([&](const std::string& key) {
      if (key == "value") {
        Value read = scalar(json_.next());
        if (made.kind == Kind::kText) made.kind = read.kind;
        made.text = std::move(read.text);
        found = true;
      } else if (key == "from") {
        made.from = text();
      } else if (key == "flag") {
        if (boolean()) made.kind = Kind::kFlag;
      } else if (key == "unknown") {
        if (boolean()) made.kind = Kind::kUnknown;
      } else {
        json_.skip(json_.next());
      }
    });
    if (!found) json_.refuse("expected a member 'value'");
    return made;
  }

  Value scalar(JsonToken token) {
    switch (token) {
      case JsonToken::kString:
        return {Kind::kText, std::string(json_.text()), ""};
      case JsonToken::kNumber: {
        // NaN and the infinities, as Python writes them, are text elsewhere.
        const bool finite =
            json_.text().find_first_of("NI") == std::string::npos;
        return {finite ? Kind::kNumber : Kind::kText, std::string(json_.text()),
                ""};
      }
      case JsonToken::kTrue:
        return {Kind::kBool, "true", ""};
      case JsonToken::kFalse:
        return {Kind::kBool, "false", ""};
      case JsonToken::kNull:
        return {Kind::kNull, "null", ""};
      default:
        json_.refuse("expected text, a number, true, false or null");
    }
  }

  void lists(const std::string& key, Snapshot& made) {
    if (key == "weights") {
      array([&](JsonToken token) { made.weights.push_back(print(token)); });
    } else if (key == "batches") {
      array([&](JsonToken token) {
        if (token != JsonToken::kBeginArray) json_.refuse("expected a list");
        Batch& batch = made.batches.emplace_back();
        while ((token = json_.next()) != JsonToken::kEndArray)
          batch.leaves.push_back(print(token));
      });
    } else if (key == "draws") {
      object([&](const std::string& name) { draws(name, made); });
    } else {
      json_.skip(json_.next());  // a later version may say more
    }
  }

  TensorPrint print(JsonToken token) {
    if (token != JsonToken::kBeginObject) json_.refuse("expected an object");
    TensorPrint made;
    members([&](const std::string& key) {
      if (key == "name") {
        made.name = text();
      } else if (key == "role") {
        made.role = text();
      } else if (key == "dtype") {
        made.dtype = text();
      } else if (key == "shape") {
        array([&](JsonToken item) {
          if (item != JsonToken::kNumber) json_.refuse("expected an integer");
          made.shape.push_back(as_integer());
        });
      } else if (key == "hash") {
        made.hash = text();
      } else if (key == "as") {
        made.as = text_map();
      } else if (key == "statistics") {
        made.statistics = text_map();
      } else if (key == "placement") {
        made.placement = text();
      } else if (key == "unreadable") {
        made.unreadable = text();
      } else {
        json_.skip(json_.next());
      }
    });
    return made;
  }

  void draws(const std::string& name, Snapshot& made) {
    if (name == "count") {
      made.draw_count = integer();
    } else if (name == "hash") {
      made.draw_hash = text();
    } else if (name == "stacks") {
      array([&](JsonToken token) {
        if (token != JsonToken::kBeginArray) json_.refuse("expected a list");
        auto& stack = made.stacks.emplace_back();
        while ((token = json_.next()) != JsonToken::kEndArray) {
          if (token != JsonToken::kString) json_.refuse("expected text");
          stack.emplace_back(json_.text());
        }
      });
    } else if (name == "first") {
      array([&](JsonToken token) { made.draws.push_back(draw(token)); });
    } else {
      json_.skip(json_.next());
    }
  }

  Draw draw(JsonToken token) {
    if (token != JsonToken::kBeginObject) json_.refuse("expected an object");
    Draw made;
    members([&](const std::string& key) {
      if (key == "function") {
        made.function = text();
      } else if (key == "arguments") {
        made.arguments = text();
      } else if (key == "result") {
        made.result = text();
      } else if (key == "stack") {
        made.stack = integer();
      } else {
        json_.skip(json_.next());
      }
    });
    return made;
  }

  void check(const Snapshot& made) const {
    for (const Draw& draw : made.draws)
      if (draw.stack >= static_cast<std::int64_t>(made.stacks.size()))
        json_.refuse("a draw names stack " + std::to_string(draw.stack) +
                     " of " + std::to_string(made.stacks.size()));
    if (made.draw_count < static_cast<std::int64_t>(made.draws.size()))
      json_.refuse("fewer draws counted than listed");
  }

  JsonReader json_;
  const std::string& source_;
};

}  // namespace

Snapshot parse_snapshot(std::string_view text, const std::string& source) {
  return Reader(text, source).read();
}

Snapshot read_snapshot(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  if (file->size() > kMostBytes)
    throw Error(Code::kRefused,
                printable(path.string()) + ": " +
                    human_bytes(static_cast<std::int64_t>(file->size())) +
                    ", a snapshot has at most 1 GiB");
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin != text.npos && text[begin] != '{')
    throw Error(Code::kRefused,
                printable(path.string()) +
                    ": no snapshot, expected what `assay env snapshot` writes "
                    "(of a script: `assay env snapshot --script`)");
  Snapshot made = parse_snapshot(text, path.string());
  file->check_intact();
  return made;
}

}  // namespace assay::env
