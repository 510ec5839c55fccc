// SPDX-License-Identifier: Apache-2.0
#include "measure/messages.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::measure {

namespace {

// NCCL's interface (its API reference): bytes travel as ncclInt8, sums as ncclFloat32.
constexpr int kOk = 0;
constexpr int kInt8 = 0;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;

}  // namespace

std::string name_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return "all-reduce";
    case Collective::kAllGather:
      return "all-gather";
    case Collective::kAllToAll:
      return "all-to-all";
  }
  return {};
}

struct Messages::Functions {
  std::unique_ptr<Library> library;
  int (*init)(void** members, int count, const int* devices) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*begin)() = nullptr;
  int (*end)() = nullptr;
  int (*reduce)(const void*, void*, std::size_t, int type, int operation, void* member, abi::Stream) = nullptr;
  int (*gather)(const void*, void*, std::size_t, int type, void* member, abi::Stream) = nullptr;
  int (*send)(const void*, std::size_t, int type, int peer, void* member, abi::Stream) = nullptr;
  int (*receive)(void*, std::size_t, int type, int peer, void* member, abi::Stream) = nullptr;
};

Result<std::unique_ptr<Messages>> Messages::open(const std::vector<const Session*>& sessions,
                                                 const std::vector<std::string>& folders, std::size_t bytes) {
  auto library = Library::open({"libnccl.so.2"}, folders);
  if (!library) return tl::make_unexpected(std::move(library.error()));
  std::unique_ptr<Messages> messages(new Messages);
  messages->sessions_ = sessions;
  messages->call_ = std::make_unique<Functions>();
  Functions& call = *messages->call_;
  call.library = *std::move(library);
  const Library& from = *call.library;
  const bool complete = from.find("ncclCommInitAll", call.init) && from.find("ncclCommDestroy", call.destroy) &&
                        from.find("ncclGroupStart", call.begin) && from.find("ncclGroupEnd", call.end) &&
                        from.find("ncclAllReduce", call.reduce) && from.find("ncclAllGather", call.gather) &&
                        from.find("ncclSend", call.send) && from.find("ncclRecv", call.receive);
  if (!complete) return missing(fmt::format("{} lacks functions of NCCL", from.path()));
  std::vector<int> devices;
  for (const Session* session : sessions) devices.push_back(session->index());
  std::vector<void*> members(sessions.size(), nullptr);
  if (const int code = call.init(members.data(), static_cast<int>(members.size()), devices.data()); code != kOk)
    return missing(fmt::format("{} does not join the GPUs: NCCL error {}", from.path(), code));
  messages->members_ = std::move(members);
  for (const Session* session : sessions) {
    PLIMSOLL_TRY_STATUS(session->use());
    PLIMSOLL_TRY(source, session->allocate(bytes));
    PLIMSOLL_TRY(target, session->allocate(bytes));
    messages->from_.push_back(std::move(source));
    messages->into_.push_back(std::move(target));
  }
  return messages;
}

Messages::~Messages() {
  for (void* member : members_)
    if (member != nullptr) call_->destroy(member);
}

const std::string& Messages::library() const { return call_->library->path(); }

Status Messages::start_on(std::size_t rank, Collective collective, std::size_t bytes) const {
  const abi::Address from = from_[rank].address();
  const abi::Address into = into_[rank].address();
  const auto pointer = [](abi::Address address) { return reinterpret_cast<void*>(address); };
  void* member = members_[rank];
  const abi::Stream stream = sessions_[rank]->stream();
  const std::size_t part = bytes / members_.size();
  int code = kOk;
  switch (collective) {
    case Collective::kAllReduce:
      code = call_->reduce(pointer(from), pointer(into), std::max<std::size_t>(1, bytes / sizeof(float)), kFloat32,
                           kSum, member, stream);
      break;
    case Collective::kAllGather:
      code = call_->gather(pointer(from), pointer(into), std::max<std::size_t>(1, part), kInt8, member, stream);
      break;
    case Collective::kAllToAll:
      for (std::size_t peer = 0; peer < members_.size() && code == kOk; ++peer) {
        code = call_->send(pointer(from + peer * part), part, kInt8, static_cast<int>(peer), member, stream);
        if (code == kOk)
          code = call_->receive(pointer(into + peer * part), part, kInt8, static_cast<int>(peer), member, stream);
      }
      break;
  }
  if (code != kOk) return missing(fmt::format("{} failed: NCCL error {}", name_of(collective), code));
  return {};
}

Status Messages::start(Collective collective, std::size_t bytes) const {
  if (const int code = call_->begin(); code != kOk) return missing(fmt::format("NCCL error {}", code));
  Status started;
  for (std::size_t rank = 0; rank < members_.size() && started; ++rank) started = start_on(rank, collective, bytes);
  const int code = call_->end();
  if (!started) return started;
  if (code != kOk) return missing(fmt::format("{} failed: NCCL error {}", name_of(collective), code));
  return {};
}

Status Messages::wait() const {
  for (const Session* session : sessions_) PLIMSOLL_TRY_STATUS(session->synchronize());
  return {};
}

Result<double> Messages::time(Collective collective, std::size_t bytes, double burst) const {
  if (bytes > from_.front().bytes()) return missing("a message larger than its buffers");
  // The first session's events time the burst; every member has finished it before the next one begins.
  PLIMSOLL_TRY_STATUS(sessions_.front()->use());
  PLIMSOLL_TRY(seconds, sessions_.front()->seconds([&] { return start(collective, bytes); }, burst));
  PLIMSOLL_TRY_STATUS(wait());
  return seconds;
}

}  // namespace plimsoll::measure
