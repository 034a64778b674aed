#include "progress_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/json.h"

namespace emend {
namespace {

using Seconds = std::chrono::duration<double>;

// Nothing is shown of work that ends sooner; then this often.
constexpr Seconds kBarPause{0.1}, kLinePause{3.0}, kJsonPause{0.1};

std::string seconds_text(double s) {
  char text[32];
  std::snprintf(text, sizeof text, s < 9.95 ? "%.1f s" : "%.0f s", s);
  return text;
}

size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

// "12 of 40, best 53 nodes, 2.1 s, about 5 s left"
std::string details(const Progress& p, double spent, double left) {
  std::string text = p.of > 0 ? str(p.done, " of ", p.of) : str(p.done);
  if (std::isfinite(p.best))
    text += str(", best ", number_text(static_cast<float>(p.best)), " ", p.unit);
  text += ", " + seconds_text(spent);
  if (std::isfinite(left)) text += ", about " + seconds_text(left) + " left";
  return text;
}

Json facts(const Progress& p, double spent, double left) {
  Json j = Json::object();
  j["schema"] = 1;
  j["phase"] = p.phase;
  j["done"] = p.done;
  j["of"] = p.of > 0 ? Json(p.of) : Json();
  j["best"] = Json(p.best);  // null where there is none
  j["unit"] = p.unit;
  j["seconds"] = spent;
  j["seconds_left"] = Json(left);
  return j;
}

}  // namespace

bool ProgressView::due(bool new_phase, Clock::time_point now) const {
  switch (mode_) {
    case Mode::none:
      return false;
    case Mode::bar:
      return now - last_ >= kBarPause;
    case Mode::lines:
      return now - last_ >= kLinePause;
    case Mode::json:
      return new_phase || now - last_ >= kJsonPause;
  }
  return false;
}

std::string ProgressView::bar(const Progress& p, double left) const {
  std::string head(p.phase), tail = details(p, Seconds(last_ - begin_).count(), left);
  size_t width = terminal_width() - 1, used = head.size() + tail.size() + 4;
  size_t cells = width > used ? std::min<size_t>(width - used, 30) : 0;
  std::string middle = " ";
  if (p.of > 0 && cells >= 5) {
    auto full = static_cast<size_t>(static_cast<double>(cells) * static_cast<double>(p.done) /
                                    static_cast<double>(p.of));
    full = std::min(full, cells);
    middle = " [" + std::string(full, '#') + std::string(cells - full, '.') + "] ";
  }
  std::string text = (head + middle + tail).substr(0, width);
  if (color_ && text.size() > head.size())
    text = "\x1b[1m" + head + "\x1b[0m" + text.substr(head.size());
  return text;
}

void ProgressView::show(const Progress& p) {
  if (mode_ == Mode::none) return;
  std::lock_guard guard(lock_);
  auto now = Clock::now();
  bool new_phase = p.phase != phase_ || p.done < done_;  // a phase may begin anew
  done_ = p.done;
  if (new_phase) {
    phase_ = p.phase;
    phase_begin_ = now;
  }
  if (!due(new_phase, now)) return;
  last_ = now;
  double spent = Seconds(now - begin_).count(), left = NAN;
  if (p.of > 0 && p.done > 0 && now > phase_begin_) {  // the first message of a phase tells nothing
    double rest = static_cast<double>(p.of - p.done) / static_cast<double>(p.done);
    left = Seconds(now - phase_begin_).count() * rest;
  }
  if (mode_ == Mode::json) {
    std::cerr << facts(p, spent, left).line() << std::endl;
  } else if (mode_ == Mode::lines) {
    std::cerr << p.phase << ": " << details(p, spent, left) << std::endl;
  } else {
    std::cerr << "\r\x1b[K" << bar(p, left) << std::flush;
    drawn_ = true;
  }
}

void ProgressView::clear() {
  std::lock_guard guard(lock_);
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace emend
