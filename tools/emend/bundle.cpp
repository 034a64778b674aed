#include "bundle.h"

#include <unistd.h>

#include <optional>
#include <set>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/parallel.h"
#include "onnx/external.h"
#include "onnx/read.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

// A file above this is named, not copied; folders are counted as a whole.
constexpr uintmax_t kCopyBytes = uintmax_t{256} << 20;

fs::path new_folder() {
  std::error_code failed;
  std::string name = str("emend-bug-", getpid());
  for (const fs::path& parent : {fs::current_path(failed), fs::temp_directory_path(failed)}) {
    fs::path folder = parent / name;
    for (int k = 2; fs::exists(folder, failed); ++k) folder = parent / str(name, "-", k);
    if (fs::create_directory(folder, failed)) return folder;
  }
  throw Error("no folder can be made for it");
}

uintmax_t bytes_below(const fs::path& path) {
  if (!fs::is_directory(path)) return fs::file_size(path);
  uintmax_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) sum += entry.file_size();
    if (sum > kCopyBytes) break;
  }
  return sum;
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

class Bundle {
 public:
  explicit Bundle(fs::path folder) : folder_(std::move(folder)) {}

  // An argument as the replay gives it. What it names may stand behind "NAME:" or "--option=".
  std::string replayed(const std::string& argument) {
    for (size_t at : {size_t{0}, argument.find('=') + 1, argument.rfind(':') + 1}) {
      if (auto path = taken(argument.substr(at))) return argument.substr(0, at) + *path;
    }
    // Where something was to be written; the replay stays inside the bundle.
    bool is_option = argument.starts_with("-");
    if (!is_option && argument.find('/') != std::string::npos)
      return fs::path(argument).filename().string();
    return argument;
  }

  Json files = Json::array();

 private:
  // Copies what a path names; nothing if it names nothing.
  std::optional<std::string> taken(const std::string& name) {
    std::error_code failed;
    bool is_folder = fs::is_directory(name, failed);
    if (name.empty() || (!is_folder && !fs::is_regular_file(name, failed))) return std::nullopt;
    fs::path path = fs::absolute(name);
    Json& entry = files.push(Json::object());
    entry["path"] = path.string();
    if (bytes_below(path) > kCopyBytes) {
      entry["copied"] = false;
      return path.string();
    }
    entry["copied"] = true;
    std::string base = path.lexically_normal().filename().string();
    if (base.empty() || !used_.insert(base).second) base = str("file", used_.size());
    used_.insert(base);
    fs::copy(path, folder_ / base, fs::copy_options::recursive);
    if (!is_folder) copy_weights(path);
    return base;
  }

  // The files that an ONNX file names are looked for beside it.
  void copy_weights(const fs::path& model) {
    if (model.extension() != ".onnx") return;
    try {
      for (const auto& location :
           onnx::external_locations(onnx::read_model(model, onnx::External::kLeave))) {
        fs::path from = model.parent_path() / location, to = folder_ / location;
        if (fs::path(location).is_absolute() || location.find("..") != std::string::npos ||
            bytes_below(from) > kCopyBytes)
          continue;
        fs::create_directories(to.parent_path());
        fs::copy_file(from, to, fs::copy_options::skip_existing);
      }
    } catch (const std::exception&) {
      // The file itself may be what the error is about; it is there.
    }
  }

  fs::path folder_;
  std::set<std::string> used_ = {"replay.sh", "facts.json"};
};

void write_text(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

fs::path write_bundle(const std::vector<std::string>& arguments, const std::string& message) {
  fs::path folder = new_folder();
  Bundle bundle(folder);
  Json facts = Json::object();
  facts["schema"] = 1;
  facts["version"] = EMEND_VERSION;
  facts["error"] = message;
  facts["threads"] = thread_count();
  facts["arguments"] = Json::array();
  std::error_code failed;
  fs::path self = fs::read_symlink("/proc/self/exe", failed);
  std::string command = "\"${EMEND:-" + (failed ? std::string("emend") : self.string()) + "}\"";
  for (const std::string& argument : arguments) {
    facts["arguments"].push(argument);
    command += " " + shell_quoted(bundle.replayed(argument));
  }
  facts["files"] = bundle.files;
  write_text(folder / "facts.json", facts.text());
  write_text(folder / "replay.sh",
             str("#!/bin/sh\n# Emend ", EMEND_VERSION,
                 " ended with an internal error, which facts.json tells; this runs it again.\n",
                 "cd \"$(dirname \"$0\")\" && exec ", command, "\n"));
  return folder;
}

}  // namespace emend
