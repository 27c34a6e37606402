// Two processors whose clocks can be set, and a thermal zone that is as hot as the last clock that was set is fast.
//
// A clock is set by writing a byte to an I/O port. The port is the scratch register of the second serial line (16550),
// which keeps what is written and means nothing to the line; the byte is the degrees that the zone shows from then on.
DefinitionBlock ("", "SSDT", 2, "OMN", "CLOCKS", 1)
{
    External (\_SB.CPUS.C000, ProcessorObj)
    External (\_SB.CPUS.C001, ProcessorObj)

    Scope (\_SB)
    {
        // MHz, mW, us to change, us without the bus, what is written, what is read back then.
        Name (PSTA, Package () {
            Package () { 2000, 20000, 10, 10, 90, 90 },
            Package () { 1600, 16000, 10, 10, 60, 60 },
            Package () { 1200, 12000, 10, 10, 50, 50 },
            Package () {  800,  8000, 10, 10, 40, 40 }
        })
        Name (PREG, Package () {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x02FF) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x02FF) }
        })
        // Throttling: percent, mW, us, what is written, what is read back. Before Linux 6.3 a zone cools no deeper than
        // its processors could when it came, which was before their clocks could be set.
        Name (TSTA, Package () {
            Package () { 100, 1000, 0, 0, 0 },
            Package () {  75,  750, 0, 1, 0 },
            Package () {  50,  500, 0, 2, 0 },
            Package () {  25,  250, 0, 3, 0 }
        })
        // A port that nothing answers at.
        Name (TREG, Package () {
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x0620) },
            ResourceTemplate () { Register (SystemIO, 8, 0, 0x0620) }
        })
    }

    Scope (\_SB.CPUS.C000)
    {
        Method (_PSS) { Return (\_SB.PSTA) }
        Method (_PCT) { Return (\_SB.PREG) }
        Method (_PPC) { Return (0) }
        Method (_TSS) { Return (\_SB.TSTA) }
        Method (_PTC) { Return (\_SB.TREG) }
        Method (_TPC) { Return (0) }
    }

    Scope (\_SB.CPUS.C001)
    {
        Method (_PSS) { Return (\_SB.PSTA) }
        Method (_PCT) { Return (\_SB.PREG) }
        Method (_PPC) { Return (0) }
        Method (_TSS) { Return (\_SB.TSTA) }
        Method (_PTC) { Return (\_SB.TREG) }
        Method (_TPC) { Return (0) }
    }

    ThermalZone (\_TZ.HEAT)
    {
        OperationRegion (LINE, SystemIO, 0x02FF, 1)
        Field (LINE, ByteAcc, NoLock, Preserve) { DEGR, 8 }

        // Tenths of a kelvin. From 80 degrees on the processors are slowed, a step each tenth of a second.
        Method (_TMP) { Return (Add (2732, Multiply (DEGR, 10))) }
        Name (_CRT, 5232)
        Name (_PSV, 3532)
        Name (_PSL, Package () { \_SB.CPUS.C000, \_SB.CPUS.C001 })
        Name (_TC1, 1)
        Name (_TC2, 1)
        Name (_TSP, 1)
        Name (_TZP, 1)
    }
}
