#include "assay/conform/proc_table.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace assay::conform {
namespace {

struct Entry {
  int pid = 0, parent = 0, group = 0;
  long pages = 0;
};

std::vector<int> all_pids() {
  std::vector<int> pids;
  std::error_code error;
  std::filesystem::directory_iterator each("/proc", error), end;
  while (!error && each != end) {
    const std::string name = each->path().filename().string();
    int pid = 0;
    const auto parsed =
        std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec == std::errc() && parsed.ptr == name.data() + name.size())
      pids.push_back(pid);
    each.increment(error);
  }
  return pids;
}

// A process may end while its file is read: an iterator over the stream
// reports that by an exception, read() by a short count.
std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char chunk[4096];
  do {
    file.read(chunk, sizeof chunk);
    text.append(chunk, static_cast<std::size_t>(file.gcount()));
  } while (file);
  return text;
}

// The name may hold blanks and brackets: fields count from its last bracket.
bool read_entry(int pid, Entry& entry) {
  const std::string text = read_all("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  entry.pid = pid;
  return std::sscanf(text.c_str() + name_end + 1,
                     " %*c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d "
                     "%*d %*d %*d %*d %*d %*u %*u %ld",
                     &entry.parent, &entry.group, &entry.pages) == 3;
}

}  // namespace

std::int64_t resident_bytes_below(int pid) {
  std::vector<Entry> entries;
  for (const int each : all_pids()) {
    Entry entry;
    if (read_entry(each, entry)) entries.push_back(entry);
  }
  std::set<int> ours{pid};
  std::int64_t pages = 0;
  std::vector<bool> counted(entries.size());
  for (bool grown = true; grown;) {
    grown = false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      if (counted[i] || (entry.pid != pid && entry.group != pid &&
                         ours.count(entry.parent) == 0))
        continue;
      counted[i] = grown = true;
      ours.insert(entry.pid);
      pages += entry.pages;
    }
  }
  return pages * ::sysconf(_SC_PAGESIZE);
}

std::vector<int> processes_with_environment(std::string_view entry) {
  const std::string wanted = std::string(entry) + '\0';
  std::vector<int> found;
  for (const int pid : all_pids()) {
    if (pid == ::getpid()) continue;
    const std::string text =
        '\0' + read_all("/proc/" + std::to_string(pid) + "/environ");
    if (text.find('\0' + wanted) != std::string::npos) found.push_back(pid);
  }
  return found;
}

}  // namespace assay::conform
