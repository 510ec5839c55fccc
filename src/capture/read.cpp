// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/bytes.h"
#include "capture/capture.h"
#include "capture/line.h"
#include "document/node.h"

namespace plimsoll::capture {

namespace {

constexpr std::string_view kSchema = "plimsoll-capture-1";
constexpr std::int64_t kMaxEvents = 20'000'000;
constexpr std::size_t kMaxLine = std::size_t{64} << 20;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;  // of one storage
constexpr std::int64_t kMaxRank = 64;
constexpr snapshot::InflateLimits kLimits{.largest = std::size_t{2} << 30, .largest_ratio = 200};

// Lines of a source, one at a time.
class Lines {
 public:
  explicit Lines(snapshot::Source& source) : source_(source) {}

  // Empty at the end. The text is valid until the next call.
  Result<std::optional<std::string_view>> next() {
    held_.erase(0, taken_);
    taken_ = 0;
    std::size_t searched = 0;
    for (;;) {
      const std::size_t end = held_.find('\n', searched);
      if (end != std::string::npos) {
        taken_ = end + 1;
        ++number_;
        return std::string_view{held_}.substr(0, end);
      }
      searched = held_.size();
      if (searched > kMaxLine) return bad_input(fmt::format("line {}: longer than {} bytes", number_ + 1, kMaxLine));
      held_.resize(searched + kPiece);
      PLIMSOLL_TRY(got, source_.read(held_.data() + searched, kPiece));
      held_.resize(searched + got);
      if (got > 0) continue;
      if (!held_.empty()) return bad_input(fmt::format("line {}: the file ends inside it; it was cut", number_ + 1));
      return std::nullopt;
    }
  }
  [[nodiscard]] std::int64_t number() const { return number_; }

 private:
  static constexpr std::size_t kPiece = std::size_t{256} << 10;
  snapshot::Source& source_;
  std::string held_;
  std::size_t taken_ = 0;
  std::int64_t number_ = 0;
};

class Reader {
 public:
  Result<std::int64_t> head(std::string_view text);
  Status event(std::string_view text, std::int64_t number);
  Capture take() { return std::move(capture_); }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong(std::int64_t number, const Line& line, std::string_view wanted) const {
    return bad_input(fmt::format("line {}, column {}: wanted {}", number, line.column(), wanted),
                     "captures are written by plimsoll capture; record it again");
  }
  [[nodiscard]] bool name_index(std::int64_t value) const {
    return value >= 0 && value < static_cast<std::int64_t>(capture_.names.size());
  }
  bool read_name(Line& line, std::uint32_t& index) const {
    std::int64_t value = 0;
    if (!line.integer(value) || !name_index(value)) return false;
    index = static_cast<std::uint32_t>(value);
    return true;
  }
  // Storages are numbered from 1 in the order of their allocation.
  bool read_storage(Line& line, std::uint32_t& storage, bool is_new) {
    std::int64_t value = 0;
    if (!line.integer(value)) return false;
    const auto known = static_cast<std::int64_t>(alive_.size());
    if (is_new ? value != known : value < 1 || value >= known || !alive_[static_cast<std::size_t>(value)]) return false;
    storage = static_cast<std::uint32_t>(value);
    return true;
  }
  static bool read_bytes(Line& line, std::int64_t& bytes) {
    return line.integer(bytes) && bytes >= 0 && bytes <= kMaxBytes;
  }
  bool read_sizes(Line& line, std::int64_t& count);
  bool read_tensors(Line& line, std::uint32_t& count);
  bool read_tensor(Line& line);

  Capture capture_;
  std::vector<bool> alive_ = {false};  // by number of the storage; an operation may name one before its allocation
};

std::vector<std::uint32_t> numbers_of(const document::Node* list) {
  std::vector<std::uint32_t> numbers;
  if (list == nullptr) return numbers;
  for (const document::Node& item : list->items)
    if (item.is_array() && !item.items.empty() && item.items[0].is_integer() && item.items[0].integer > 0)
      numbers.push_back(static_cast<std::uint32_t>(
          std::min<std::int64_t>(item.items[0].integer, std::numeric_limits<std::uint32_t>::max())));
  return numbers;
}

Result<std::int64_t> Reader::head(std::string_view text) {
  Result<document::Node> parsed = document::parse_json(text);
  if (!parsed) return tl::make_unexpected(std::move(parsed.error()).with_context("line 1"));
  const document::Node* schema = parsed->find("schema");
  if (schema == nullptr || schema->text != kSchema)
    return bad_input(fmt::format("line 1: schema is '{}'; wanted {}", schema == nullptr ? "" : schema->text, kSchema));
  const document::Node* names = parsed->find("names");
  const document::Node* events = parsed->find("events");
  if (names == nullptr || !names->is_array() || events == nullptr || !events->is_integer())
    return bad_input("line 1: names and events are missing; wanted a list and a number");
  if (events->integer < 0 || events->integer > kMaxEvents)
    return bad_input(fmt::format("line 1: {} events; wanted at most {}", events->integer, with_commas(kMaxEvents)));
  for (const document::Node& name : names->items) capture_.names.push_back(name.text);
  if (const document::Node* torch = parsed->find("torch")) capture_.torch = torch->text;
  if (const document::Node* of = parsed->find("capability"); of != nullptr && of->is_integer())
    capture_.capability = of->integer;
  if (const document::Node* sizes = parsed->find("sizes")) {
    if (const document::Node* batch = sizes->find("batch")) capture_.batch = batch->integer;
    if (const document::Node* sequence = sizes->find("seq")) capture_.sequence = sequence->integer;
  }
  if (const document::Node* assumed = parsed->find("assumed"))
    for (const auto& [what, times] : assumed->members)
      capture_.assumed.push_back(fmt::format("{} ({} times)", what, times.integer));
  capture_.parameters = numbers_of(parsed->find("parameters"));
  capture_.buffers = numbers_of(parsed->find("buffers"));
  return events->integer;
}

bool Reader::read_sizes(Line& line, std::int64_t& count) {
  count = 0;
  if (!line.open()) return false;
  while (!line.is_next(']')) {
    std::int64_t size = 0;
    if ((count > 0 && !line.comma()) || !line.integer(size) || size < 0 || size > kMaxBytes || ++count > kMaxRank)
      return false;
    capture_.dims.push_back(size);
  }
  return line.close();
}

bool Reader::read_tensor(Line& line) {
  Tensor tensor;
  std::int64_t storage = 0;
  std::int64_t rank = 0;
  std::int64_t strides = 0;
  // An operation stands before the allocations of its outputs, so that a storage may be named that follows.
  if (!line.open() || !line.integer(storage) || storage < 1 || storage > kMaxEvents || !line.comma()) return false;
  tensor.storage = static_cast<std::uint32_t>(storage);
  tensor.dims = static_cast<std::uint32_t>(capture_.dims.size());
  if (!read_name(line, tensor.type) || !line.comma() || !read_sizes(line, rank) || !line.comma() ||
      !read_sizes(line, strides) || !line.close() || rank != strides)
    return false;
  tensor.rank = static_cast<std::uint32_t>(rank);
  capture_.tensors.push_back(tensor);
  return true;
}

bool Reader::read_tensors(Line& line, std::uint32_t& count) {
  count = 0;
  if (!line.open()) return false;
  while (!line.is_next(']')) {
    if ((count > 0 && !line.comma()) || !read_tensor(line)) return false;
    ++count;
  }
  return line.close();
}

Status Reader::event(std::string_view text, std::int64_t number) {
  Line line(text);
  Event event;
  std::int64_t kind = -1;
  if (!line.open() || !line.integer(kind) || kind < 0 || kind > 5 || !line.comma())
    return wrong(number, line, "[0 to 5, ...");
  event.kind = static_cast<Kind>(kind);
  switch (event.kind) {
    case Kind::kOperation: {
      std::int64_t engine = 0;
      event.tensors = static_cast<std::uint32_t>(capture_.tensors.size());
      if (!read_name(line, event.name) || !line.comma() || !read_name(line, event.place) || !line.comma() ||
          !read_tensors(line, event.inputs) || !line.comma() || !read_tensors(line, event.outputs) || !line.comma() ||
          !line.skip_array() || !line.comma() || !line.integer(engine))
        return wrong(number, line, "an operation: name, place, inputs, outputs, numbers, engine");
      event.by_engine = engine == 1;
      break;
    }
    case Kind::kAllocate:
      if (!read_storage(line, event.storage, true) || !line.comma() || !read_bytes(line, event.bytes))
        return wrong(number, line, "the next storage and its bytes");
      alive_.push_back(true);
      break;
    case Kind::kRelease:
      if (!read_storage(line, event.storage, false)) return wrong(number, line, "a storage that is alive");
      alive_[event.storage] = false;
      break;
    case Kind::kPhase:
      if (!read_name(line, event.name)) return wrong(number, line, "the name of a phase");
      break;
    case Kind::kResize:
      if (!read_storage(line, event.storage, false) || !line.comma() || !read_bytes(line, event.bytes))
        return wrong(number, line, "a storage that is alive and its bytes");
      break;
    case Kind::kStream: {
      constexpr std::int64_t kMostStreams = 1 << 16;
      std::int64_t stream = -1;
      if (!line.integer(stream) || stream < 0 || stream > kMostStreams)
        return wrong(number, line, "the number of a stream");
      event.storage = static_cast<std::uint32_t>(stream);
      break;
    }
  }
  if (!line.close() || !line.at_end()) return wrong(number, line, "the end of the line");
  capture_.events.push_back(event);
  return {};
}

std::int64_t width_of_type(std::string_view type) {
  if (type == "bool" || type.ends_with("int8") || type.starts_with("float8")) return 1;
  if (type.ends_with("16")) return 2;
  if (type == "complex128") return 16;
  return type.ends_with("64") ? 8 : 4;
}

void count_parameters(Capture& capture) {
  std::vector<bool> is_parameter;
  for (const std::uint32_t storage : capture.parameters) {
    if (storage >= is_parameter.size()) is_parameter.resize(std::size_t{storage} + 1);
    is_parameter[storage] = true;
  }
  for (const Event& event : capture.events) {
    if (event.kind != Kind::kOperation) continue;
    for (const Tensor& tensor : capture.outputs_of(event)) {
      if (tensor.storage >= is_parameter.size() || !is_parameter[tensor.storage]) continue;
      capture.parameter_elements += capture.elements_of(tensor);
      is_parameter[tensor.storage] = false;
    }
  }
}

}  // namespace

std::int64_t Capture::elements_of(const Tensor& tensor) const {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape_of(tensor))
    if (__builtin_mul_overflow(elements, size, &elements)) return kMaxBytes;
  return elements;
}

std::int64_t Capture::width_of(const Tensor& tensor) const { return width_of_type(names[tensor.type]); }

Result<Capture> read_capture(snapshot::Source& source) {
  Lines lines(source);
  Reader reader;
  PLIMSOLL_TRY(first, lines.next());
  if (!first) return bad_input("empty; wanted a capture");
  PLIMSOLL_TRY(wanted, reader.head(*first));
  std::int64_t found = 0;
  for (;;) {
    PLIMSOLL_TRY(text, lines.next());
    if (!text) break;
    if (++found > wanted)
      return bad_input(fmt::format("line {}: more than the {} events that line 1 says", lines.number(), wanted));
    PLIMSOLL_TRY_STATUS(reader.event(*text, lines.number()));
  }
  if (found != wanted)
    return bad_input(fmt::format("{} events; line 1 says {}, so the file was cut", found, wanted),
                     "record it again, or copy it again");
  Capture capture = reader.take();
  count_parameters(capture);
  return capture;
}

Result<Capture> read_capture(const std::string& path) {
  Result<std::unique_ptr<snapshot::Source>> file = snapshot::file_source(path);
  if (!file) return tl::make_unexpected(std::move(file.error()).with_context("reading " + path));
  auto unpacked = snapshot::unpacked_source(*std::move(file), kLimits);
  if (!unpacked) return tl::make_unexpected(std::move(unpacked.error()).with_context("reading " + path));
  Result<Capture> capture = read_capture(**unpacked);
  if (!capture) return tl::make_unexpected(std::move(capture.error()).with_context("reading " + path));
  return capture;
}

bool is_capture(const std::string& path) {
  if (path == "-") return false;
  Result<std::unique_ptr<snapshot::Source>> file = snapshot::file_source(path);
  if (!file) return false;
  auto unpacked = snapshot::unpacked_source(*std::move(file), kLimits);
  if (!unpacked) return false;
  std::string start(64, '\0');
  const Result<std::size_t> got = (*unpacked)->read(start.data(), start.size());
  return got && std::string_view{start}.substr(0, *got).starts_with(fmt::format("{{\"schema\":\"{}\"", kSchema));
}

}  // namespace plimsoll::capture
