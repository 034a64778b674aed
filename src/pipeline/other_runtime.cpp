#include "pipeline/other_runtime.h"

#include <cmath>
#include <cstdlib>

#include "base/hash.h"
#include "base/json.h"
#include "base/parallel.h"
#include "export/onnx.h"
#include "pipeline/runtime_helper.h"
#include "run/machine.h"

namespace emend {
namespace {

namespace fs = std::filesystem;

constexpr double kKernelSeconds = 0.05, kRaceSeconds = 1;  // that are measured, at least
constexpr int kMostFailures = 3;

// What the environment says, else the one that `make` fills beside the command, else the system's.
std::string python() {
  const char* named = std::getenv("EMEND_PYTHON");
  if (named && *named) return named;
  std::error_code none;
  fs::path self = fs::read_symlink("/proc/self/exe", none);
  fs::path beside = self.parent_path().parent_path() / ".venv/bin/python";
  return fs::exists(beside, none) ? beside.string() : "python3";
}

fs::path passing_folder() {
  const char* named = std::getenv("TMPDIR");
  const fs::path folder = named && *named ? named : "/tmp";
  std::string pattern = (folder / "emend-runtime-XXXXXX").string();
  if (!::mkdtemp(pattern.data()))
    throw Error(str(folder.string(),
                    ": no folder for files can be made there; set TMPDIR to one where it can"));
  return pattern;
}

// The folder passes anyway: what cannot be removed now is no reason to stop.
void remove_file(const fs::path& file) {
  std::error_code ignored;
  fs::remove(file, ignored);
}

std::string strange(const std::string& answer) {
  return str("it answered ", emend::quoted(answer.substr(0, 80)));
}

// The times of an answer, or why there is none. A helper that answers something else is as good as
// dead: `sound` is false then.
Result<std::vector<double>> times_in(const std::string& line, size_t wanted, bool& sound) {
  auto answer = Json::parse(line);
  const auto* seconds = answer ? answer->at("seconds").as<Json::Array>() : nullptr;
  const auto* reasons = answer ? answer->at("reasons").as<Json::Array>() : nullptr;
  sound = seconds && reasons && seconds->size() == wanted && reasons->size() == wanted;
  if (!sound) return Failure{strange(line)};
  std::vector<double> times;
  for (size_t i = 0; i < wanted; ++i) {
    const auto* reason = (*reasons)[i].as<std::string>();
    if (reason) return Failure{*reason};
    double s = (*seconds)[i].number_or(-1);
    sound = std::isfinite(s) && s > 0;
    if (!sound) return Failure{strange(line)};
    times.push_back(s);
  }
  return times;
}

}  // namespace

bool OtherRuntime::knows(std::string_view name) {
  return name == "onnxruntime" || name == "openvino";
}

OtherRuntime::OtherRuntime(OtherRuntimeOptions options)
    : options_(std::move(options)), folder_(passing_folder()) {
  EMEND_ASSERT(knows(options_.name) && options_.prices, options_.name);
  if (options_.threads <= 0) options_.threads = thread_count();
  try {
    start();
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw;
  }
  prefix_ =
      str(title(), " threads ", options_.threads, " machine ", hash_text(processor_name()), ": ");
  for (const auto& [domain, version] : options_.opsets)
    if (domain.empty()) prefix_ += str("opset ", version, " ");
}

OtherRuntime::~OtherRuntime() {
  process_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string OtherRuntime::title() const {
  return str(options_.name, " ", version_);
}

void OtherRuntime::start() {
  std::string used = python();
  process_ = std::make_unique<LineProcess>(std::vector<std::string>{
      used, "-c", kRuntimeHelper, options_.name, std::to_string(options_.threads)});
  auto line = process_->read_line(options_.patience_s, options_.monitor);
  auto answer = line ? Json::parse(*line) : Result<Json>(Failure{line.error()});
  const auto* version = answer ? answer->at("version").as<std::string>() : nullptr;
  const auto* error = answer ? answer->at("error").as<std::string>() : nullptr;
  if (version) {
    version_ = *version;
    return;
  }
  throw Error(str(options_.name, " cannot be asked, tried with ", used, ": ",
                  error  ? *error
                  : line ? strange(*line)
                         : line.error(),
                  "; install it (", used, " -m pip install ", options_.name,
                  "), or name a Python that has it in EMEND_PYTHON"));
}

Result<std::vector<double>> OtherRuntime::time(const std::vector<fs::path>& files, double seconds) {
  if (!process_) start();
  Json request = Json::object();
  request["files"] = Json::array();
  for (const fs::path& f : files) request["files"].push(f.string());
  request["seconds"] = seconds;
  auto line = process_->ask(request.line(), options_.patience_s, options_.monitor);
  bool sound = line.has_value();
  auto times = line ? times_in(*line, files.size(), sound) : Failure{line.error()};
  if (sound) {
    failures_ = 0;
    return times;
  }
  process_.reset();
  if (!stopped() && ++failures_ >= kMostFailures)
    throw Error(str("the helper process of ", title(), " fails again and again: ", times.error()));
  return times;
}

fs::path OtherRuntime::written(const Graph& g) {
  fs::path file = folder_ / str(++files_, ".onnx");
  export_onnx({.graph = g, .info = {.ir_version = options_.ir_version, .opsets = options_.opsets}},
              file);
  return file;
}

double OtherRuntime::listed(const std::string& key, double seconds) {
  ++measured_;
  try {
    options_.prices->put(key, seconds);
    return options_.prices->find(key).value_or(seconds);
  } catch (const Error&) {
    return seconds;  // a list that cannot be written costs time the next time
  }
}

Result<double> OtherRuntime::seconds(const Graph& g, const std::string& what) {
  std::string key = prefix_ + what;
  if (auto price = options_.prices->find(key)) {
    ++known_;
    return *price;
  }
  fs::path file;
  try {
    file = written(g);
  } catch (const Error& e) {
    return Failure{e.what()};
  }
  auto times = time({file}, kKernelSeconds);
  remove_file(file);
  if (!times) return Failure{times.error()};
  return listed(key, (*times)[0]);
}

Result<std::pair<double, double>> OtherRuntime::race(const Graph& a, const Graph& b) {
  uint64_t of_a = hash(a), of_b = hash(b);
  std::string key_a = str(prefix_, "program ", of_a, " beside ", of_b),
              key_b = str(prefix_, "program ", of_b, " beside ", of_a);
  auto price_a = options_.prices->find(key_a), price_b = options_.prices->find(key_b);
  if (price_a && price_b) {
    known_ += 2;
    return std::pair(*price_a, *price_b);
  }
  fs::path file;
  try {
    if (first_ != of_a || first_file_.empty()) {
      if (!first_file_.empty()) remove_file(first_file_);
      first_file_ = written(a);
      first_ = of_a;
    }
    file = of_a == of_b ? first_file_ : written(b);
  } catch (const Error& e) {
    return Failure{e.what()};
  }
  auto times = time({first_file_, file}, kRaceSeconds);
  if (file != first_file_) remove_file(file);
  if (!times) return Failure{times.error()};
  return std::pair(listed(key_a, (*times)[0]), listed(key_b, (*times)[1]));
}

}  // namespace emend
