#include "tests/oracle/index.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "assay/base/error.h"

namespace assay::oracle {
namespace {

using nlohmann::json;

// Where we are in the document: "INDEX.json: files[3].arrays.x".
struct Place {
  std::string text;
  Place operator+(const std::string& more) const { return {text + more}; }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::kRefused, text + ": " + what);
  }
};

// Of two members of the same name a parser keeps one: the other would not be
// looked at.
json parse(std::istream& in, const Place& place) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key &&
        !open.back().insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  json document = json::parse(in, watch, false);
  if (document.is_discarded()) place.refuse("not JSON");
  if (!twice.empty()) place.refuse("\"" + twice + "\" twice in one object");
  return document;
}

const json& member(const json& object, const char* name, const Place& place) {
  const auto found = object.find(name);
  if (found == object.end()) place.refuse("no \"" + std::string(name) + "\"");
  return *found;
}

const json& object_member(const json& object, const char* name,
                          const Place& place) {
  const json& value = member(object, name, place);
  if (!value.is_object())
    place.refuse("\"" + std::string(name) + "\" is not an object");
  return value;
}

Shape shape_of(const json& value, const Place& place) {
  const auto whole = [](const json& v) { return v.is_number_unsigned(); };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), whole))
    place.refuse("\"shape\" is not a list of dimensions");
  return value.get<Shape>();
}

IndexedArray array_of(const std::string& name, const json& facts,
                      const Place& place) {
  if (!facts.is_object()) place.refuse("not an object");
  IndexedArray array;
  array.name = name;
  if (facts.contains("dtype")) {
    if (!facts["dtype"].is_string()) place.refuse("\"dtype\" is not text");
    array.dtype = facts["dtype"].get<std::string>();
  }
  if (facts.contains("shape")) array.shape = shape_of(facts["shape"], place);
  if (facts.contains("expect")) array.expect = facts["expect"].dump();
  return array;
}

IndexedFile file_of(const json& entry, const Place& place) {
  if (!entry.is_object()) place.refuse("not an object");
  const json& name = member(entry, "file", place);
  if (!name.is_string()) place.refuse("\"file\" is not text");
  IndexedFile file;
  file.file = name.get<std::string>();
  if (file.file.empty() || file.file.find('/') != std::string::npos)
    place.refuse("\"file\" is " + name.dump() +
                 ", expected a file of the folder, not a path");
  const Place named = place + " (" + file.file + ")";
  file.params = object_member(entry, "params", named).dump();
  for (const auto& [array, facts] :
       object_member(entry, "arrays", named).items())
    file.arrays.push_back(array_of(array, facts, named + " array " + array));
  return file;
}

}  // namespace

Index read_index(const std::filesystem::path& folder) {
  const auto path = folder / "INDEX.json";
  std::ifstream in(path);
  if (!in) throw Error(Code::kUnreadable, path.string() + ": cannot be read");
  const Place place{path.string()};
  const json document = parse(in, place);
  if (!document.is_object() || !document.contains("files") ||
      !document["files"].is_array())
    place.refuse("expected an object with a list \"files\"");
  Index index;
  if (document.contains("count")) {
    if (!document["count"].is_number_integer())
      place.refuse("\"count\" is not a whole number");
    index.count = document["count"].get<std::int64_t>();
  }
  const json& files = document["files"];
  for (std::size_t i = 0; i < files.size(); ++i)
    index.files.push_back(
        file_of(files[i], place + ": files[" + std::to_string(i) + "]"));
  return index;
}

}  // namespace assay::oracle
