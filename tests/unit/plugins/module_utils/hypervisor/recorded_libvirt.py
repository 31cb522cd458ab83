"""What libvirt 9.0 with QEMU 7.2 printed on a host in a container; UUIDs and names are those of the tests."""

STATS = """Domain: 'i1'
  state.state=1
  state.reason=1
  cpu.time=560000000
  cpu.user=140000000
  cpu.system=280000000
  cpu.cache.monitor.count=0
  cpu.haltpoll.success.time=0
  cpu.haltpoll.fail.time=0
  balloon.current=16384
  balloon.maximum=16384
  balloon.rss=39740
  vcpu.current=1
  vcpu.maximum=1
  vcpu.0.state=1
  vcpu.0.time=60000000
  vcpu.0.wait=0
  vcpu.0.delay=54889255

Domain: 'churn'
  state.state=3
  state.reason=2
  cpu.time=370000000
  cpu.user=100000000
  cpu.system=270000000
  cpu.cache.monitor.count=0
  balloon.current=16384
  balloon.maximum=16384
  vcpu.current=1
  vcpu.maximum=1
  vcpu.0.state=1
  vcpu.0.time=0
  vcpu.0.wait=0
  vcpu.0.delay=5204039

Domain: 'full'
  state.state=3
  state.reason=5
  cpu.time=580000000
  balloon.current=16384
  balloon.maximum=16384
  vcpu.current=1

"""
LEAVING = """Job type:         Unbounded   
Operation:        Outgoing migration
Time elapsed:     3397         ms
Data processed:   6.104 MiB
Data remaining:   9.402 MiB
Data total:       16.375 MiB
Memory processed: 6.104 MiB
Memory remaining: 9.402 MiB
Memory total:     16.375 MiB
Memory bandwidth: 2.035 MiB/s
Dirty rate:       0            pages/s
Page size:        4096         bytes
Iteration:        1           
Postcopy requests: 0           
Constant pages:   226         
Normal pages:     1559        
Normal data:      6.090 MiB
Expected downtime: 300          ms
Setup time:       1            ms

"""  # noqa: W291 - as it was printed
NO_JOB = "Job type:         None        \n\n"
COMPLETED = """Job type:         Completed   
Operation:        Incoming migration
Time elapsed:     1063         ms
Memory total:     16.375 MiB
"""  # noqa: W291 - as it was printed
UUIDS = """11111111-2222-3333-4444-555555555553 churn
11111111-2222-3333-4444-555555555551 i1

"""
COMPLAINT = """
error: Failed to create domain from /shared/i1.xml
error: Requested operation is not valid: domain 'i1' is already active
"""
DUMP = """<domain type='qemu' id='1' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>i1</name>
  <uuid>11111111-2222-3333-4444-555555555551</uuid>
  <memory unit='KiB'>16384</memory>
  <currentMemory unit='KiB'>16384</currentMemory>
  <vcpu placement='static' current='1'>2</vcpu>
  <os>
    <type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type>
    <boot dev='hd'/>
  </os>
  <cpu mode='custom' match='exact' check='full'>
    <model fallback='forbid'>qemu64</model>
    <topology sockets='1' dies='1' cores='2' threads='1'/>
  </cpu>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='cdrom'>
      <target dev='sda' bus='sata'/>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='none'/>
      <source file='/shared/tick.img' index='1'/>
      <backingStore/>
      <target dev='vda' bus='virtio'/>
      <alias name='virtio-disk0'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/>
    </disk>
    <interface type='bridge'>
      <mac address='52:54:00:aa:bb:cc'/>
      <source bridge='br1'/>
      <alias name='ua-first'/>
    </interface>
    <memballoon model='none'/>
  </devices>
  <seclabel type='dynamic' model='dac' relabel='yes'>
    <label>+0:+0</label>
  </seclabel>
  <qemu:commandline>
    <qemu:arg value='-no-user-config'/>
  </qemu:commandline>
</domain>
"""
