#include "assay/formats/polygraphy_json.h"

#include <unordered_set>
#include <utility>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay {
namespace {

using Kind = PolygraphyArray::Kind;

bool is_marker(std::string_view key) {
  return key == "polygraphy_class" || key.starts_with("__polygraphy_encoded_");
}

class Finder {
 public:
  explicit Finder(const FileBytes& file)
      : file_(file), scan_(as_text(file.bytes), file.name) {}

  std::vector<PolygraphyArray> run() {
    if (scan_.peek() == '[') {
      feeds("");
    } else {
      top_object();
    }
    scan_.finish();
    return std::move(arrays_);
  }

 private:
  void top_object() {
    PolygraphyArray bare;
    for (JsonObject object(scan_); object.next();) {
      const std::string& key = object.key();
      const char first = scan_.peek();
      if (key == "lst" && first == '[') {
        runs();
      } else if (is_marker(key)) {
        scan_.skip_value();
      } else if (!payload(key, first, bare)) {
        value(key);
      }
    }
    if (bare.kind != Kind::kNone) add(std::move(bare));
  }

  // [[runner, [iteration, ...]], ...]
  void runs() {
    for (JsonArray pairs(scan_); pairs.next();) {
      std::string runner;
      std::size_t items = 0;
      for (JsonArray pair(scan_); pair.next(); ++items) {
        if (items == 0) {
          runner = scan_.string();
        } else if (items == 1) {
          iterations(runner + "/");
        } else {
          scan_.fail("']' after [runner, iterations]");
        }
      }
      if (items != 2) scan_.fail("[runner, iterations] before");
    }
  }

  void iterations(const std::string& prefix) {
    for (JsonArray array(scan_); array.next();) {
      bool has_outputs = false;
      for (JsonObject object(scan_); object.next();) {
        if (object.key() == "outputs") {
          has_outputs = true;
          feed(prefix + std::to_string(array.index()) + "/");
        } else {
          scan_.skip_value();
        }
      }
      if (!has_outputs) scan_.fail("an iteration with \"outputs\" before");
    }
  }

  // [{name: array, ...}, ...]
  void feeds(const std::string& prefix) {
    for (JsonArray array(scan_); array.next();) {
      feed(prefix + std::to_string(array.index()) + "/");
    }
  }

  void feed(const std::string& prefix) {
    for (JsonObject object(scan_); object.next();) {
      if (is_marker(object.key())) {
        scan_.skip_value();
      } else {
        value(prefix + object.key());
      }
    }
  }

  void value(std::string name) {
    PolygraphyArray array;
    array.name = std::move(name);
    if (scan_.peek() == '{') {
      array_object(array);
      if (array.kind == Kind::kNone) array.why = "an object without an array";
    } else {
      scan_.skip_value();
      array.why = "a value that is no array";
    }
    add(std::move(array));
  }

  // {"array": ...}, {"tensor": ...} or the same inside {"values": ...}.
  void array_object(PolygraphyArray& array) {
    for (JsonObject object(scan_); object.next();) {
      const char first = scan_.peek();
      if (object.key() == "values" && first == '{') {
        array_object(array);
      } else if (!payload(object.key(), first, array)) {
        scan_.skip_value();
      }
    }
  }

  // Takes the base64 text where `key` is the one of an array.
  bool payload(std::string_view key, char first, PolygraphyArray& array) {
    if (first != '"' || (key != "array" && key != "tensor")) return false;
    if (array.kind != Kind::kNone) scan_.fail("one array in an object, not");
    array.kind = key == "array" ? Kind::kNumpy : Kind::kTorch;
    array.payload = scan_.string_token();
    return true;
  }

  void add(PolygraphyArray array) {
    if (!names_.insert(array.name).second) {
      refuse(file_.name, scan_.offset(),
             "a second array named \"" + printable(array.name) + "\"",
             "each name once");
    }
    arrays_.push_back(std::move(array));
  }

  const FileBytes& file_;
  JsonScanner scan_;
  std::vector<PolygraphyArray> arrays_;
  std::unordered_set<std::string> names_;
};

}  // namespace

std::vector<PolygraphyArray> find_polygraphy_arrays(const FileBytes& file) {
  return Finder(file).run();
}

}  // namespace assay
