-- Record batches -----------------------------------------------------------------------------

local HEADER_BYTES, OVERHEAD_BYTES = 61, 12
local COMPRESSIONS = { [0] = "none", "gzip", "snappy", "lz4", "zstd" }

local CRC_TABLE = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do
    crc = bit.band(crc, 1) == 1 and bit.bxor(bit.rshift(crc, 1), 0x82f63b78) or bit.rshift(crc, 1)
  end
  CRC_TABLE[byte] = crc
end

local function crc32c(text)
  local crc = 0xffffffff
  for at = 1, #text do
    crc = bit.bxor(CRC_TABLE[bit.band(bit.bxor(crc, text:byte(at)), 0xff)], bit.rshift(crc, 8))
  end
  return bit.bnot(crc) % 0x100000000
end

-- A zigzag varint, which may not pass byte `stop`: an Int64 for 64 bits, else a number.
local function varint(reader, stop, bits)
  local start, low, high = reader.at, 0, 0 -- Bits 0 to 27, and those above.
  for step = 0, math.ceil(bits / 7) - 1 do
    if reader.at >= stop then
      fail(reader, step == 0 and "truncated" or "varint_truncated", "the bytes end where a varint should", start)
    end
    local byte = reader.tvb(reader.at, 1):uint()
    reader.at = reader.at + 1
    if step < 4 then
      low = low + byte % 128 * 2 ^ (7 * step)
    else
      high = high + byte % 128 * 2 ^ (7 * (step - 4))
    end
    if byte < 128 then
      if byte == 0 and step > 0 then
        warn(reader, "non_minimal_varint", "a varint takes more bytes than its value needs", start)
      end
      if high >= 2 ^ (bits - 28) then fail(reader, "varint_overflow", "a varint has more than " .. bits .. " bits", start) end
      if bits == 32 then
        local value = high * 0x10000000 + low
        return math.floor(value % 2 == 0 and value / 2 or -(value + 1) / 2)
      end
      local value = UInt64.new((high % 16) * 0x10000000 + low, math.floor(high / 16))
      local half = value:rshift(1)
      if low % 2 == 1 then half = half:bnot() end
      return Int64.new(half:lower(), half:higher())
    end
  end
  fail(reader, "varint_overflow", "a varint is too long", start)
end

local function read_varint(reader, tree, path, name, stop, bits)
  local start = reader.at
  reader.names[#reader.names + 1] = name
  local value = varint(reader, stop, bits or 32)
  tree:add(F[path], reader.tvb(start, reader.at - start), value)
  table.remove(reader.names)
  return value, start
end

-- Bytes of a record with their length before them; returns where they are, or nil for null.
local function read_sized(reader, tree, path, name, stop, text)
  local start = reader.at
  reader.names[#reader.names + 1] = name
  local length = varint(reader, stop, 32)
  if length < (text and 0 or -1) then fail(reader, "negative_length", "a length of " .. length .. " is negative", start) end
  if length > stop - reader.at then
    fail(reader, "length_exceeds_input", length .. " bytes are announced, " .. stop - reader.at .. " are left", start)
  end
  local body = reader.at
  reader.at = body + math.max(length, 0)
  local whole = reader.tvb(start, reader.at - start)
  local raw = length > 0 and reader.tvb(body, length):raw() or ""
  local item
  if text then
    local good = is_utf8(raw)
    item = tree:add(F[path], whole, good and (raw:gsub("%z", "\226\144\128")) or "(not UTF-8)")
    if not good then warn(reader, "invalid_utf8", "the key of a header is not UTF-8", start) end
  elseif length < 0 then
    item = add_null(tree, { name = name }, path, whole)
  else
    item = tree:add(F[path], reader.tvb(body, length))
    if raw:find("^[ -~]+$") then item:append_text(' "' .. raw:sub(1, 60) .. '"') end
  end
  table.remove(reader.names)
  if length >= 0 then return body, reader.at, item end
end

-- The message in the value of a record: of the metadata log, or of a control batch. What is wrong
-- with it concerns this record alone.
local function read_frame(outer, record, tree, key_from, key_to, from, to)
  local reader = inner_reader(outer, from, to)
  local known, version, number
  if outer.control then
    if not key_from or key_to - key_from < 4 or to - from < 2 then return end
    number = reader.tvb(key_from + 2, 2):int()
    known, version = CONTROL_RECORDS[number], reader.tvb(from, 2):int()
    tree:add(F["record.type"], reader.tvb(key_from + 2, 2))
    if known and known.name == "EndTxnMarker" then
      tree:add(F["record.version"], reader.tvb(from, 2))
      reader.at = from + 2
    end
  else
    local head = {}
    local done = reading(reader, function()
      for _, path in ipairs({ "record.frame_version", "record.type", "record.version" }) do
        local start = reader.at
        head[#head + 1] = uvarint(reader)
        tree:add(F[path], reader.tvb(start, reader.at - start), head[#head])
      end
    end)
    if not done then return end
    number, version = head[2], head[3]
    known = head[1] == 1 and METADATA_RECORDS[number]
  end
  local chosen = known and known.versions[version]
  if not chosen then
    local text = "no layout of " .. (known and known.name or "record type " .. number) .. " version " .. version
    tree:add_proto_expert_info(undecoded, text)
    return
  end
  record:append_text(": " .. known.name .. (outer.control and number <= 1 and (number == 1 and " commit" or " abort") or ""))
  read_message(reader, tree, chosen.layout, known.path)
end

local function read_record(reader, tree, batch, index)
  local start = reader.at
  local record = tree:add(F.record, reader.tvb(start, batch.stop - start)):set_text("record[" .. index .. "]")
  local length, length_at = read_varint(reader, record, "record.length", "length", batch.stop)
  if length < 0 then fail(reader, "negative_length", "a length of " .. length .. " is negative", length_at) end
  local stop = reader.at + length
  if stop > batch.stop then
    fail(reader, "length_exceeds_input", length .. " bytes are announced, " .. batch.stop - reader.at .. " are left", length_at)
  end
  record:set_len(stop - start)
  if length == 0 then fail(reader, "truncated", "a record of no bytes", reader.at) end
  record:add(F["record.attributes"], reader.tvb(reader.at, 1))
  reader.at = reader.at + 1
  read_varint(reader, record, "record.timestamp_delta", "timestampDelta", stop, 64)
  local delta, delta_at = read_varint(reader, record, "record.offset_delta", "offsetDelta", stop)
  if delta <= batch.delta or delta > batch.last_delta then
    warn(reader, "offset_delta_disorder", "an offset delta of " .. delta .. " after " .. batch.delta .. "; the last of the batch is " .. batch.last_delta, delta_at)
  end
  batch.delta = delta
  local offset = batch.base + Int64.new(delta % 0x100000000, delta < 0 and 0xffffffff or 0)
  record:add(F["record.offset"], reader.tvb(start, 0), offset):set_generated()
  record:append_text(" offset " .. tostring(offset))
  local key_from, key_to = read_sized(reader, record, "record.key", "key", stop)
  local from, to, value = read_sized(reader, record, "record.value", "value", stop)
  if from and (batch.control or batch.metadata) then
    reader.control = batch.control
    read_frame(reader, record, value, key_from, key_to, from, to)
  end
  local count, count_at = read_varint(reader, record, "record.headers.length", "headers", stop)
  if count < 0 then fail(reader, "negative_length", "a count of " .. count .. " headers is negative", count_at) end
  if count > (stop - reader.at) / 2 then
    fail(reader, "length_exceeds_input", count .. " headers do not fit in the " .. stop - reader.at .. " bytes left", count_at)
  end
  for number = 0, count - 1 do
    local at = reader.at
    local header = record:add(F["record.headers.element"], reader.tvb(at, stop - at)):set_text("headers[" .. number .. "]")
    reader.names[#reader.names + 1] = "headers[" .. number .. "]"
    read_sized(reader, header, "record.headers.key", "key", stop, true)
    read_sized(reader, header, "record.headers.value", "value", stop)
    table.remove(reader.names)
    header:set_len(reader.at - at)
  end
  if reader.at < stop then
    fail(reader, "trailing", stop - reader.at .. " bytes after the last field of a record", reader.at)
  end
end

local function read_batch_header(reader, tree, size)
  local at, tvb = reader.at, reader.tvb
  for _, entry in ipairs({
    { "base_offset", 0, 8 }, { "batch_length", 8, 4 }, { "partition_leader_epoch", 12, 4 },
    { "magic", 16, 1 }, { "crc", 17, 4 }, { "attributes", 21, 2 }, { "last_offset_delta", 23, 4 },
    { "base_timestamp", 27, 8 }, { "max_timestamp", 35, 8 }, { "producer_id", 43, 8 },
    { "producer_epoch", 51, 2 }, { "base_sequence", 53, 4 }, { "record_count", 57, 4 },
  }) do
    local item = tree:add(F["batch." .. entry[1]], tvb(at + entry[2], entry[3]))
    if entry[1] == "crc" and proto.prefs.crc then
      local given, found = tvb(at + 17, 4):uint(), crc32c(tvb(at + 21, size - 21):raw())
      if given ~= found then
        warn(reader, "crc_mismatch", string.format("the CRC-32C of the batch is 0x%08x, its header says 0x%08x", found, given), at + 17)
      end
    elseif entry[1] == "attributes" then
      local bits = tvb(at + 21, 2):uint()
      item:add(F["batch.compression"], tvb(at + 22, 1), COMPRESSIONS[bits % 8] or "unknown (" .. bits % 8 .. ")")
      for _, flag in ipairs({ { "log_append_time", 8 }, { "transactional", 16 }, { "control", 32 } }) do
        item:add(F["batch." .. flag[1]], tvb(at + 22, 1), math.floor(bits / flag[2]) % 2 == 1)
      end
    end
  end
end

-- Whether another record may follow: its length is one of a record, and ends in the batch.
local function record_follows(reader, stop)
  local length = 0
  for step = 0, math.min(4, stop - reader.at - 1) do
    local byte = reader.tvb(reader.at + step, 1):uint()
    length = length + byte % 128 * 2 ^ (7 * step)
    if byte < 128 then
      return length % 2 == 0 and length / 2 >= 6 and length / 2 <= stop - reader.at - step - 1
    end
  end
  return false
end

-- Read one batch; returns false where nothing more can be read.
local function read_batch(reader, tree, index)
  local start, tvb, left = reader.at, reader.tvb, reader.stop - reader.at
  local item = tree:add(F.batch, tvb(start, left)):set_text("batch[" .. index .. "]")
  local length = left > 16 and tvb(start + 8, 4):int() or 0
  local magic = left > 16 and tvb(start + 16, 1):int()
  if magic and length < 14 then
    fail(reader, "batch_length_mismatch", "a batch length of " .. length .. " is less than any batch takes", start + 8)
  end
  if magic and magic ~= 2 then
    fail(reader, "bad_magic", "message format v" .. magic .. " is not decoded, only v2", start + 16)
  end
  if magic and length < HEADER_BYTES - OVERHEAD_BYTES then
    fail(reader, "batch_length_mismatch", "a batch length of " .. length .. " is less than a header takes", start + 8)
  end
  local size = length + OVERHEAD_BYTES
  if left < HEADER_BYTES or left < size then -- A broker cuts the last batch of a fetch where it is full.
    local text = "part of a batch: " .. left .. " bytes" .. (magic and " of " .. size or "")
    item:set_text(text)
    item:add_proto_expert_info(undecoded, text)
    reader.at = reader.stop
    return false
  end
  item:set_len(size)
  read_batch_header(reader, item, size)
  local bits, count = tvb(start + 21, 2):uint(), tvb(start + 57, 4):int()
  local batch = {
    stop = start + size, delta = -1, last_delta = tvb(start + 23, 4):int(), base = tvb(start, 8):int64(),
    control = math.floor(bits / 32) % 2 == 1,
    metadata = reader.topic == METADATA_TOPIC or reader.topic == METADATA_TOPIC_ID,
  }
  local compression = bits % 8
  item:append_text(string.format(": %d %srecords from offset %s%s", count, batch.control and "control " or "",
    tostring(batch.base), compression > 0 and ", " .. (COMPRESSIONS[compression] or "compressed") or ""))
  reader.at = start + HEADER_BYTES
  if compression > 0 then
    local body = tvb(reader.at, batch.stop - reader.at)
    item:add(F["batch.compressed"], body):set_text((COMPRESSIONS[compression] or "unknown compression") .. ": " .. body:len() .. " bytes")
    if compression > 4 then fail(reader, "unknown_compression", "there is no compression " .. compression, start + 21) end
    reader.at = batch.stop
    return true
  end
  if count < 0 then fail(reader, "negative_length", "a count of " .. count .. " records is negative", start + 57) end
  if count > (batch.stop - reader.at) / 7 then
    fail(reader, "record_count_mismatch", count .. " records do not fit", start + 57)
  end
  local depth = #reader.names
  for number = 0, count - 1 do
    if reader.at >= batch.stop then
      fail(reader, "record_count_mismatch", "the header says " .. count .. " records, there are " .. number, start + 57)
    end
    reader.names[depth + 1] = "records[" .. number .. "]"
    read_record(reader, item, batch, number)
    reader.names[depth + 1] = nil
  end
  if reader.at < batch.stop then
    if record_follows(reader, batch.stop) then
      fail(reader, "record_count_mismatch", "the header says " .. count .. " records, there are more", start + 57)
    end
    fail(reader, "trailing", batch.stop - reader.at .. " bytes after the last of " .. count .. " records", reader.at)
  end
  return true
end

-- The batches from byte `from` to `to`. What is wrong in them does not end the message.
function read_batches(outer, tree, from, to)
  local reader = inner_reader(outer, from, to)
  if outer.position and outer.position > 0 then return end -- A later part of a snapshot.
  reading(reader, function()
    local index = 0
    while reader.at < to do
      reader.names[#reader.names + 1] = "[" .. index .. "]"
      if not read_batch(reader, tree, index) then return end
      table.remove(reader.names)
      index = index + 1
    end
  end)
end
